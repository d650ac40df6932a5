package plimsoll

import (
	"context"
	"testing"
	"time"
)

const (
	mib  = 1 << 20
	soon = time.Minute // the broker answers; any delay comes from a busy machine
)

// await waits for the next event that is wanted, and skips others.
func await(t testing.TB, p *Principal, wanted ...EventKind) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for {
		event, err := p.Wait(ctx)
		if err != nil {
			t.Fatalf("waited for %v: %v (%v)", wanted, err, p.Err())
		}
		for _, kind := range wanted {
			if event.Kind == kind {
				return event
			}
		}
	}
}

// eventually waits until something is so; long enough for a busy machine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openAt opens a principal of a broker that answers.
func openAt(t testing.TB, f *fake, options Options) *Principal {
	t.Helper()
	options.Socket = f.socket()
	if options.Timeout == 0 {
		options.Timeout = soon
	}
	p, err := Open("test", options)
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}
