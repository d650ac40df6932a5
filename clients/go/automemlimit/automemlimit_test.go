package automemlimit

import (
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"plimsoll"
)

func open(t *testing.T, options plimsoll.Options) *plimsoll.Principal {
	t.Helper()
	options.Timeout = time.Minute
	p, err := plimsoll.Open("automemlimit", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func setLimit(t *testing.T, p *plimsoll.Principal) (int64, error) {
	t.Helper()
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	var provider memlimit.Provider = p.MemoryLimit
	return memlimit.Set(memlimit.WithProvider(provider), memlimit.WithRatio(0.5))
}

func TestItIsAProvider(t *testing.T) {
	path := os.Getenv("PLIMSOLLD")
	if path == "" {
		t.Skip("skipped: PLIMSOLLD does not say where plimsolld is")
	}
	dir := t.TempDir()
	broker := exec.Command(path, "--directory", dir, "--budget", "256M")
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = broker.Process.Signal(syscall.SIGTERM) // it removes its pages
		_ = broker.Wait()
	}()
	p := open(t, plimsoll.Options{Socket: dir + "/broker.sock"})
	for end := time.Now().Add(time.Minute); p.Read().Source != plimsoll.SourceBroker || p.Read().Limit == 0; {
		if time.Now().After(end) {
			t.Fatal(p.Err())
		}
		time.Sleep(5 * time.Millisecond)
	}
	limit, err := setLimit(t, p)
	if err != nil || limit <= 0 || limit > 128<<20 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("the limit is %d, %v", limit, err)
	}
}

func TestWithoutABrokerItSaysSo(t *testing.T) {
	if _, err := setLimit(t, open(t, plimsoll.Options{Alone: true})); !errors.Is(err, plimsoll.ErrNoBroker) {
		t.Errorf("it said %v", err)
	}
}
