package plimsoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	maxCall  = 64 << 10 // longest message that a broker takes, bytes
	maxReply = 64 << 10 // longest reply that is read, bytes; a listing may be longer
	maxList  = 16 << 20
	// The pause between two tries to connect while the broker's queue of connections is full.
	queueFull = 10 * time.Millisecond
)

// A connection makes one call at a time. After a timeout, or an answer that breaks the protocol, it is broken
// for good, because the next answer could belong to another call.
type connection struct {
	conn    *net.UnixConn
	place   place
	timeout time.Duration
	buffer  bytes.Buffer // received and not read yet
	broken  bool
	release func() bool // ends the watch over the context
}

// dialFirst connects to the first of these places where a broker answers and can be trusted.
func dialFirst(ctx context.Context, places []place, timeout time.Duration) (*connection, error) {
	var untrusted error
	for _, place := range places {
		found, err := dial(ctx, place, timeout)
		if err == nil {
			return found, nil
		}
		if untrusted == nil && isUntrusted(err) {
			untrusted = err
		}
	}
	if untrusted != nil {
		return nil, untrusted
	}
	return nil, &absentError{text: fmt.Sprintf(
		"no broker runs (looked at %s); start one with `plimsolld` or use `plimsoll run`", namesOf(places))}
}

// dial connects. The timeout bounds this and every later call. The end of the context ends the connection.
func dial(ctx context.Context, place place, timeout time.Duration) (*connection, error) {
	if err := place.checkDirectory(); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var dialer net.Dialer
	for {
		found, err := dialer.DialContext(within, "unix", place.path)
		if err == nil {
			conn := found.(*net.UnixConn)
			if err := place.checkPeer(conn); err != nil {
				_ = conn.Close()
				return nil, err
			}
			release := context.AfterFunc(ctx, func() { _ = conn.Close() })
			return &connection{conn: conn, place: place, timeout: timeout, release: release}, nil
		}
		if !errors.Is(err, syscall.EAGAIN) || !pause(within, queueFull) {
			return nil, &absentError{"cannot connect to " + place.path, err}
		}
	}
}

func (c *connection) close() {
	c.broken = true
	c.release()
	_ = c.conn.Close()
}

// call makes a call with one answer, which is read into `into`.
func (c *connection) call(method string, parameters, into any) error {
	if err := c.send(call{Method: method, Parameters: parameters}); err != nil {
		return err
	}
	most := maxReply
	if method == "List" {
		most = maxList
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.timeout))
	continues, err := c.receive(into, most)
	if err == nil && continues {
		c.broken = true
		return c.protocol("more than one answer to a call that wants one")
	}
	return err
}

func (c *connection) send(message call) error {
	if c.broken {
		return c.closed(nil)
	}
	encoded, err := message.encode()
	if err != nil {
		return err
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	if _, err := c.conn.Write(encoded); err != nil {
		c.broken = true
		return c.fault(err)
	}
	return nil
}

// receive reads the next answer, and tells whether more follow. A refusal leaves the connection whole.
func (c *connection) receive(into any, most int) (continues bool, err error) {
	if c.broken {
		return false, c.closed(nil)
	}
	message, err := c.message(most)
	if err != nil {
		c.broken = true
		return false, err
	}
	answer, err := parseReply(message)
	if err == nil {
		err = answer.result(into)
	}
	var refused *RefusedError
	switch {
	case err == nil:
		return answer.Continues, nil
	case errors.As(err, &refused):
		return false, err
	}
	c.broken = true
	return false, c.protocol(err.Error())
}

// message cuts the next message, without its NUL byte, from what arrives.
func (c *connection) message(most int) ([]byte, error) {
	var chunk [8192]byte
	scanned := 0
	for {
		end := bytes.IndexByte(c.buffer.Bytes()[scanned:], 0)
		switch {
		case end < 0 && c.buffer.Len() > most, end >= 0 && scanned+end > most:
			return nil, c.protocol(fmt.Sprintf("a message is longer than %d bytes", most))
		case end >= 0:
			message := bytes.Clone(c.buffer.Next(scanned + end + 1))
			if c.buffer.Len() == 0 && c.buffer.Cap() > maxReply {
				c.buffer = bytes.Buffer{} // do not keep the room of a long listing
			}
			return message[:scanned+end], nil
		}
		scanned = c.buffer.Len()
		count, err := c.conn.Read(chunk[:])
		c.buffer.Write(chunk[:count])
		if err != nil && count == 0 {
			return nil, c.fault(err)
		}
	}
}

func (c *connection) fault(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return &absentError{text: fmt.Sprintf(
			"the broker at %s did not answer within %d ms; look with `plimsoll doctor`",
			c.place.path, c.timeout.Milliseconds())}
	case errors.Is(err, io.EOF):
		return c.closed(nil)
	}
	return c.closed(err)
}

func (c *connection) closed(cause error) error {
	return &absentError{"the broker at " + c.place.path + " closed the connection", cause}
}

func (c *connection) protocol(why string) error { return &protocolError{c.place.path, why} }

// pause waits for a time; false if the context ended before.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
