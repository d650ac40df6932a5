package plimsoll

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A stream takes the changes of a principal from a connection of its own, and keeps the last one.
type stream struct {
	connection *connection
	news       func() // called at each change and at the end
	done       chan struct{}

	mu    sync.Mutex
	last  changedReply
	fresh bool
	err   error // why it ended
}

// subscribe opens a stream, and waits for the first change, which comes at once.
func subscribe(ctx context.Context, at place, timeout time.Duration, id uint64, news func()) (*stream, error) {
	found, err := dial(ctx, at, timeout)
	if err != nil {
		return nil, err
	}
	s := &stream{connection: found, news: news, done: make(chan struct{})}
	err = found.send(call{Method: "Subscribe", Parameters: whichCall{id}, More: true})
	if err == nil {
		_ = found.conn.SetReadDeadline(time.Now().Add(timeout))
		var continues bool
		continues, err = found.receive(&s.last, maxReply)
		if err == nil && !continues {
			err = found.closed(nil)
		}
	}
	if err != nil {
		found.close()
		return nil, err
	}
	// A silent stream is no fault: the watcher looks at the heartbeat.
	_ = found.conn.SetReadDeadline(time.Time{})
	go s.run()
	return s, nil
}

// run takes changes until the connection ends.
func (s *stream) run() {
	defer close(s.done)
	for {
		var changed changedReply
		continues, err := s.connection.receive(&changed, maxReply)
		s.mu.Lock()
		if err == nil {
			s.last, s.fresh = changed, true
			if !continues {
				err = errors.New("the broker ended the stream of changes")
			}
		}
		s.err = err
		s.mu.Unlock()
		s.news()
		if err != nil {
			return
		}
	}
}

// take returns the last change, whether it is new, and why the stream ended if it did.
func (s *stream) take() (last changedReply, fresh bool, ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, s.fresh = s.fresh, false
	return s.last, fresh, s.err
}

// close ends the connection and the goroutine.
func (s *stream) close() {
	s.connection.release()
	_ = s.connection.conn.Close()
	<-s.done
}
