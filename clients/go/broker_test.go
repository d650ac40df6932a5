package plimsoll

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// broker is a real one, for one test.
type broker struct {
	*exec.Cmd
	place place
}

// startBroker starts a broker that shares out 256 MiB. It ends with the test.
func startBroker(t *testing.T, dir string) *broker {
	t.Helper()
	path := os.Getenv("PLIMSOLLD")
	if path == "" {
		t.Skip("skipped: PLIMSOLLD does not say where plimsolld is")
	}
	b := &broker{exec.Command(path, "--directory", dir, "--budget", "256M"), place{dir + "/broker.sock", anyUser}}
	must(t, b.Start())
	t.Cleanup(func() { // it removes its pages
		_ = b.Process.Signal(syscall.SIGTERM)
		_ = b.Wait()
	})
	eventually(t, "the broker answers", func() bool {
		control, err := dial(context.Background(), b.place, soon)
		if err != nil {
			return false
		}
		defer control.close()
		return control.call("org.varlink.service.GetInfo", nothing{}, &nothing{}) == nil
	})
	return b
}

func (b *broker) kill() {
	_ = b.Process.Kill()
	_ = b.Wait()
}

// row is a principal in a listing.
type row struct {
	PID               *int
	Name              string
	Weight            int
	Uses, Limit, Owed uint64
	Demand, Share     uint64
	Children          []row
}

func (b *broker) rows(t *testing.T) []row {
	t.Helper()
	control, err := dial(context.Background(), b.place, soon)
	must(t, err)
	defer control.close()
	var all struct{ Principals []row }
	must(t, control.call("List", nothing{}, &all))
	return all.Principals
}

// row is the row of a process; empty if there is none.
func (b *broker) row(t *testing.T, pid int) row {
	for _, row := range b.rows(t) {
		if row.PID != nil && *row.PID == pid {
			return row
		}
	}
	return row{}
}

// sleeper is a process that does nothing. It ends with the test.
func sleeper(t *testing.T) int {
	t.Helper()
	command := exec.Command("sleep", "600")
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command.Process.Pid
}

func joinBroker(t *testing.T, b *broker, options Options) *Principal {
	t.Helper()
	options.Socket, options.Timeout = b.place.path, soon
	p, err := Open("real", options)
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	await(t, p, EventJoined)
	return p
}

func TestJoinsSurvivesAndRejoinsTheRealBroker(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, dir)
	light := joinBroker(t, b, Options{Weight: 10, PID: sleeper(t)})
	heavy := joinBroker(t, b, Options{Weight: 30, PID: sleeper(t)})
	near := func(a, b uint64) bool { return max(a, b)-min(a, b) <= 3*4096 }
	eventually(t, "shares are by weight", func() bool {
		share := light.Read().Share
		return share > 0 && near(heavy.Read().Share, 3*share)
	})
	for i := 0; i < 1000; i++ {
		before := light.Read().Limit
		// The broker raises one of them only after it lowered the other.
		if sum := before + heavy.Read().Limit; light.Read().Limit == before && sum > 256*mib {
			t.Fatalf("the limits are %d together", sum)
		}
	}
	must(t, light.SetWeight(30))
	eventually(t, "a new weight counts", func() bool { return near(light.Read().Share, heavy.Read().Share) })
	must(t, light.SetMax(64*mib))
	eventually(t, "so does a maximum", func() bool { return light.Read().Limit <= 64*mib })

	b.kill()
	for _, p := range []*Principal{light, heavy} {
		await(t, p, EventBrokerLost)
		if p.Read().Source != SourceLocal {
			t.Error("it is not local")
		}
	}
	b = startBroker(t, dir)
	for _, p := range []*Principal{light, heavy} {
		await(t, p, EventJoined)
	}
	for _, row := range b.rows(t) {
		if row.Weight != 30 {
			t.Errorf("the next broker has %+v", row)
		}
	}
}

func TestABrokerThatIsStoppedIsLeftUntilItGoesOn(t *testing.T) {
	b := startBroker(t, t.TempDir())
	p, err := Open("real", Options{Socket: b.place.path, PID: sleeper(t), Timeout: 2 * time.Second})
	must(t, err)
	defer p.Close()
	await(t, p, EventJoined)
	must(t, b.Process.Signal(syscall.SIGSTOP))
	await(t, p, EventBrokerLost)
	must(t, b.Process.Signal(syscall.SIGCONT))
	await(t, p, EventJoined)
}

func TestTheBrokerRefusesAndSaysWhy(t *testing.T) {
	b := startBroker(t, t.TempDir())
	for _, options := range []Options{{PID: 1}, {PID: 1<<31 - 1}} {
		options.Socket, options.Timeout = b.place.path, soon
		_, err := Open("real", options)
		if _, ok := err.(*RefusedError); !ok {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

func TestChildrenLiveWithinTheirParent(t *testing.T) {
	b := startBroker(t, t.TempDir())
	parent := joinBroker(t, b, Options{PID: sleeper(t), Max: 100 * mib})
	pids := []int{sleeper(t), sleeper(t)}
	weights := []int{10, 30}
	var children []*Principal
	for i, pid := range pids {
		child, err := parent.Child("child", Options{Weight: weights[i], NoProcess: true, Timeout: soon})
		must(t, err)
		defer child.Close()
		await(t, child, EventJoined)
		must(t, child.Attach(pid))
		children = append(children, child)
	}
	eventually(t, "they share what the parent gets", func() bool {
		light, heavy := children[0].Read(), children[1].Read()
		return light.Share > 0 && heavy.Share > light.Share && heavy.Limit <= 100*mib
	})
	if rows := b.rows(t); len(rows) != 1 || len(rows[0].Children) != 2 {
		t.Errorf("the broker shows %+v", rows)
	}
}

func TestACachePaysADebtOnceAndKeepsItsLimit(t *testing.T) {
	b := startBroker(t, t.TempDir())
	cache := startProgram(t, "cache", b.place.path)
	eventually(t, "the cache is full", func() bool { return b.row(t, cache.Process.Pid).Uses > 190*mib })
	neighbour := startProgram(t, "cache", b.place.path)
	eventually(t, "the neighbour has its half", func() bool {
		return b.row(t, neighbour.Process.Pid).Uses > 110*mib
	})
	eventually(t, "the cache owes nothing", func() bool { return b.row(t, cache.Process.Pid).Owed == 0 })
	if now := b.row(t, cache.Process.Pid); now.Uses*10 < now.Limit*8 {
		t.Errorf("it uses %d of %d", now.Uses, now.Limit)
	}
	cache.until(t, "owed")
	cache.kill()
	for line := range cache.lines {
		fields := strings.Fields(line)
		owed, _ := strconv.ParseUint(fields[3], 10, 64)
		freed, _ := strconv.ParseUint(fields[5], 10, 64)
		// Beside what was dropped, there may be garbage.
		if freed > owed+32*mib {
			t.Errorf("it freed too much: %s", line)
		}
	}
}

func TestUnderRunItIsThePrincipalOfTheProgram(t *testing.T) {
	b := startBroker(t, t.TempDir())
	command := filepath.Join(filepath.Dir(os.Getenv("PLIMSOLLD")), "plimsoll")
	executable, err := os.Executable()
	must(t, err)
	if _, err := os.Stat(command); err != nil {
		t.Skip("skipped: plimsoll is not beside plimsolld")
	}
	run := exec.Command(command, "run", "--weight", "70", "--", executable)
	line := startCommand(t, run, "tell", b.place.path).until(t, "id ")
	fields := strings.Fields(line)
	if fields[2] != "true" || fields[4] != "broker" || fields[1] != fields[6] {
		t.Error(line)
	}
	rows := b.rows(t)
	if len(rows) != 1 || rows[0].Weight != 70 || rows[0].Name != "own-name" {
		t.Errorf("the broker shows %+v", rows)
	}
}
