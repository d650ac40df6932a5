package plimsoll

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"
)

func TestRegistersReadsAndHears(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{Weight: 20, Priority: 3, Max: 5 << 30})
	asked := f.registered[0]
	if asked.Name != "test" || *asked.Weight != 20 || *asked.Priority != 3 || *asked.Max != 5<<30 ||
		*asked.PID != os.Getpid() || asked.Adapter != "self" || asked.Kind != "process" {
		t.Errorf("it asked for %+v", asked)
	}
	if id, ok := p.ID(); id != 1 || !ok {
		t.Errorf("its number is %d, %v", id, ok)
	}
	await(t, p, EventJoined)
	if now := p.Read(); now.Numbers != numbersOf(100*mib) || now.Source != SourceBroker {
		t.Errorf("it reads %+v", now)
	}
	// Reading needs the page only; a wake-up needs a message.
	f.publishSilently(1, numbersOf(90*mib))
	if limit := p.Read().Limit; limit != 90*mib {
		t.Errorf("the limit is %d", limit)
	}
	f.publish(1, numbersOf(80*mib))
	if event := await(t, p, EventChanged); event.Limit != 80*mib {
		t.Errorf("it was told %+v", event)
	}
	owed := numbersOf(60 * mib)
	owed.Owed, owed.Deadline, owed.Level = mib, 77, LevelWarning
	f.publish(1, owed)
	if event := await(t, p, EventOwed); event.Numbers != owed {
		t.Errorf("it was told %+v", event)
	}
	f.publish(1, numbersOf(60*mib))
	if event := await(t, p, EventRelief); event.Owed != 0 {
		t.Errorf("it was told %+v", event)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if event, err := p.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("it was told %v, %v", event, err)
	}
	must(t, p.Close())
	eventually(t, "the broker sees the end", func() (gone bool) {
		f.state(func() { gone = reflect.DeepEqual(f.gone, []uint64{1}) })
		return gone
	})
	if _, err := p.Wait(context.Background()); !errors.Is(err, ErrClosed) || !errors.Is(p.SetWeight(5), ErrClosed) {
		t.Errorf("a closed principal: %v", err)
	}
	p.Read()
	must(t, p.Close())
}

func TestTellsTheBrokerWhatItIsTold(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{NoProcess: true})
	p.Report(Report{Live: Value(5)})
	p.Report(Report{Demand: Value(0)})
	p.Report(Report{Collections: Value(6)})
	p.Released(10)
	p.Released(20)
	must(t, p.Attach(4321))
	must(t, p.SetWeight(7))
	must(t, p.SetPriority(-3))
	must(t, p.SetMax(0))
	want := reportCall{1, Report{Live: Value(5), Demand: Value(0), Collections: Value(6)}}
	eventually(t, "all of it arrives", func() (all bool) {
		f.state(func() {
			last := len(f.reports) - 1
			all = last >= 0 && reflect.DeepEqual(f.reports[last], want) && f.released == 30
		})
		return all
	})
	f.state(func() {
		if f.registered[0].PID != nil || !reflect.DeepEqual(f.attached, []attachCall{{1, 4321}}) {
			t.Errorf("it attached %+v", f.attached)
		}
		if len(f.sets) != 3 || *f.sets[0].Weight != 7 || *f.sets[1].Priority != -3 || *f.sets[2].Max != 0 {
			t.Errorf("it set %+v", f.sets)
		}
	})
}

func TestWorksAloneWhereNoBrokerRuns(t *testing.T) {
	dir := t.TempDir()
	p, err := Open("alone", Options{Socket: dir + "/broker.sock"})
	must(t, err)
	defer p.Close()
	now := p.Read()
	if _, joined := p.ID(); joined || now.Source != SourceLocal || now.Uses == 0 ||
		now.Limit < now.Uses-now.Owed || now.Available < now.Limit {
		t.Errorf("it reads %+v", now)
	}
	if _, err := p.MemoryLimit(); !errors.Is(err, ErrNoBroker) || !errors.Is(p.Err(), ErrNoBroker) {
		t.Errorf("why it is alone: %v", p.Err())
	}
	p.Released(5)
	p.Report(Report{Live: Value(9)})
	must(t, p.SetWeight(33))
	must(t, p.SetPriority(-4))
	must(t, p.Attach(os.Getpid()))

	f := startFake(t, dir, good, 1)
	if event := await(t, p, EventJoined); event.Numbers != numbersOf(100*mib) {
		t.Errorf("it was told %+v", event)
	}
	eventually(t, "the report is said again", func() (said bool) {
		f.state(func() { said = len(f.reports) > 0 && *f.reports[0].Live == 9 })
		return said
	})
	f.state(func() {
		if asked := f.registered[0]; *asked.Weight != 33 || *asked.Priority != -4 || f.released != 0 {
			t.Errorf("it asked for %+v", asked)
		}
	})
	if limit, err := p.MemoryLimit(); limit != 100*mib || err != nil {
		t.Errorf("the limit is %d, %v", limit, err)
	}
	never, err := Open("never", Options{Alone: true})
	must(t, err)
	defer never.Close()
	if never.Read().Source != SourceLocal {
		t.Error("it joined")
	}
}

func TestFallsBackWhenTheBrokerDiesAndRejoins(t *testing.T) {
	dir := t.TempDir()
	f := startFake(t, dir, good, 1)
	p := openAt(t, f, Options{Weight: 20})
	child, err := p.Child("child", Options{NoProcess: true, Weight: 5, Timeout: soon})
	must(t, err)
	defer child.Close()
	f.state(func() {
		if asked := f.registered[1]; *asked.Parent != 1 || *asked.Weight != 5 {
			t.Errorf("the child asked for %+v", asked)
		}
	})
	await(t, p, EventJoined)
	await(t, child, EventJoined)
	must(t, p.SetPriority(2))
	f.kill()
	lost := await(t, p, EventBrokerLost)
	if lost.Source != SourceLocal || lost.Limit > 100*mib {
		t.Errorf("the dead broker's limit still bounds: %+v", lost)
	}
	if _, joined := p.ID(); joined || p.Read().Source != SourceLocal {
		t.Error("it is joined")
	}
	p.Released(1)
	await(t, child, EventBrokerLost)

	f = startFake(t, dir, good, 50)
	await(t, p, EventJoined)
	await(t, child, EventJoined)
	id, _ := p.ID()
	f.state(func() {
		for _, asked := range f.registered {
			switch {
			case asked.Name == "child" && *asked.Parent != id:
				t.Errorf("the child is below %d", *asked.Parent)
			case asked.Name == "test" && (*asked.Weight != 20 || *asked.Priority != 2):
				t.Errorf("it asked for %+v", asked)
			}
		}
	})
	f.publish(id, numbersOf(70*mib))
	eventually(t, "the new page is read", func() bool { return p.Read().Limit == 70*mib })
}

func TestUsesThePrincipalThatTheEnvironmentNames(t *testing.T) {
	dir := t.TempDir()
	f := startFake(t, dir, good, 1)
	owner := openAt(t, f, Options{})
	await(t, owner, EventJoined)
	t.Setenv("PLIMSOLL_ID", "1")
	t.Setenv("PLIMSOLL_PAGE", f.pagePath(1))
	inner := openAt(t, f, Options{FromEnvironment: true})
	if id, _ := inner.ID(); id != 1 || len(f.registered) != 1 || inner.Read().Limit != 100*mib {
		t.Errorf("it is principal %d", id)
	}
	inner.Released(3)
	eventually(t, "it speaks for it", func() (said bool) {
		f.state(func() { said = f.released == 3 })
		return said
	})
	// A number of an earlier broker: it is found by its process.
	t.Setenv("PLIMSOLL_ID", "77")
	older := openAt(t, f, Options{FromEnvironment: true})
	await(t, older, EventJoined)
	if id, _ := older.ID(); id != 1 {
		t.Errorf("it is principal %d", id)
	}
	all := []*Principal{owner, older}
	f.kill()
	for _, p := range all {
		await(t, p, EventBrokerLost)
	}
	f = startFake(t, dir, elsewhere, 20)
	for _, p := range all {
		await(t, p, EventJoined)
	}
	f.publishSilently(20, numbersOf(33*mib))
	for _, p := range all {
		if p.Read().Limit != 33*mib {
			t.Error("it does not read the page, wherever it is")
		}
	}
}

func TestAProcessThatIsAPrincipalAlreadyIsFound(t *testing.T) {
	dir := t.TempDir()
	f := startFake(t, dir, strict, 1)
	// As `plimsoll run` registers a program: with a weight, and another adapter.
	outer := openAt(t, f, Options{Weight: 40, Adapter: "outer"})
	inner := openAt(t, f, Options{Weight: 7, Timeout: time.Second})
	await(t, outer, EventJoined)
	await(t, inner, EventJoined)
	f.state(func() {
		if !reflect.DeepEqual(f.adapted, []adaptCall{{ID: 1, Adapter: "self"}}) || len(f.registered) != 1 {
			t.Errorf("it told %+v", f.adapted)
		}
	})
	// After a crash the program waits for the principal of `plimsoll run` to come back with its weight.
	f.kill()
	await(t, inner, EventBrokerLost)
	f = startFake(t, dir, strict, 9)
	await(t, outer, EventJoined)
	await(t, inner, EventJoined)
	f.state(func() {
		if len(f.registered) != 1 || *f.registered[0].Weight != 40 {
			t.Errorf("it registered %+v", f.registered)
		}
	})
	// If that principal does not come back, the program registers itself.
	f.kill()
	must(t, outer.Close())
	f = startFake(t, dir, strict, 20)
	eventually(t, "it registers", func() bool {
		id, ok := inner.ID()
		return ok && id == 20
	})
	f.state(func() {
		if *f.registered[0].Weight != 7 {
			t.Errorf("it registered %+v", f.registered)
		}
	})
}

func TestAnUnnamedPrincipalGetsTheNameOfTheProgram(t *testing.T) {
	f := startFake(t, t.TempDir(), strict, 1)
	openAt(t, f, Options{Adapter: "outer"})
	t.Setenv("PLIMSOLL_UNNAMED", "1")
	t.Setenv("PLIMSOLL_ID", "1")
	p, err := Open("own name", Options{Socket: f.socket(), Timeout: soon})
	must(t, err)
	defer p.Close()
	f.state(func() {
		if want := (adaptCall{1, "self", "own name"}); !reflect.DeepEqual(f.adapted, []adaptCall{want}) {
			t.Errorf("it told %+v", f.adapted)
		}
	})
}

func TestOneFunctionIsCalledAtChanges(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	calls := make(chan Reading, 100)
	stop := p.OnChange(func(now Reading) uint64 {
		calls <- now
		return now.Owed
	})
	other := p.OnChange(func(Reading) uint64 { return 0 })
	if first := <-calls; first.Limit != 100*mib {
		t.Errorf("the first call had %+v", first)
	}
	owed := numbersOf(50 * mib)
	owed.Owed, owed.Deadline, owed.Sensed = 4*mib, 1, monotonic()
	f.publish(1, owed)
	for (<-calls).Owed != 4*mib {
	}
	eventually(t, "the broker is told", func() (told bool) {
		f.state(func() { told = f.released == 4*mib })
		return told
	})
	if p.Read().Owed != 0 {
		t.Error("it is still owed")
	}
	await(t, p, EventJoined) // Wait hears of all of it, too
	stop()
	other()
	must(t, p.Close())
	stop()
}

func TestOptionsAreCheckedBeforeTheyAreSent(t *testing.T) {
	for name, options := range map[string]Options{
		"BadWeight":     {Weight: -1},
		"BadPriority":   {Priority: 101},
		"BadMax":        {Max: 1},
		"NoSuchProcess": {PID: -1},
		"BadName":       {Adapter: "a\nb"},
	} {
		options.Alone = true
		if _, err := Open("x", options); !isRefusal(err, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := string(make([]byte, 65))
	for _, name := range []string{"", "a\nb", long, "\xff", "a\u202eb", "\u0085"} {
		if _, err := Open(name, Options{Alone: true}); !isRefusal(err, "BadName") {
			t.Errorf("%q: %v", name, err)
		}
	}
	p, err := Open("Größe 大", Options{Alone: true})
	must(t, err)
	defer p.Close()
	for _, err := range []error{p.SetWeight(0), p.SetPriority(-101), p.SetMax(5), p.Attach(0)} {
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("it was taken: %v", err)
		}
	}
}
