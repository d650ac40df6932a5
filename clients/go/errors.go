package plimsoll

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is the error of a principal that was closed.
	ErrClosed = errors.New("the principal is closed")
	// ErrNoBroker is the error of what only a broker can answer, while none is there.
	ErrNoBroker = errors.New("no broker is there just now; the numbers come from local sensing")
)

// A RefusedError is the broker's refusal, or that of a check before the broker is asked.
type RefusedError struct {
	Name    string // as the interface declares it: io.plimsoll.BadWeight, org.varlink.service.MethodNotFound
	Message string // for people: what happened, to what, and what to do
	// The parameter that the broker does not take, where it names one.
	Parameter string
}

func (e *RefusedError) Error() string { return e.Message }

// refuse is a refusal of our own.
func refuse(name, format string, values ...any) error {
	return &RefusedError{Name: "io.plimsoll." + name, Message: fmt.Sprintf(format, values...)}
}

// isRefusal tells whether an error is the refusal of this name.
func isRefusal(err error, name string) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Name == "io.plimsoll."+name
}

// An absentError says that there is no broker to talk to: none answers, it is late, or it closed the
// connection.
type absentError struct {
	text  string
	cause error
}

func (e *absentError) Error() string {
	if e.cause == nil {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

func (e *absentError) Unwrap() error { return e.cause }

func (e *absentError) Is(target error) bool { return target == ErrNoBroker }

func isAbsent(err error) bool { return errors.Is(err, ErrNoBroker) }

// An untrustedError says that another user could have put a socket there.
type untrustedError struct{ path, why string }

func (e *untrustedError) Error() string {
	return fmt.Sprintf("%s is not to be trusted: %s; remove it or set PLIMSOLL_SOCKET", e.path, e.why)
}

func isUntrusted(err error) bool {
	var untrusted *untrustedError
	return errors.As(err, &untrusted)
}

// A protocolError says that an answer does not follow the interface.
type protocolError struct{ path, why string }

func (e *protocolError) Error() string {
	return fmt.Sprintf("the broker at %s answered against the protocol: %s; update the older of the two",
		e.path, e.why)
}
