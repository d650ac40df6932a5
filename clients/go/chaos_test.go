package plimsoll

import (
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// held is what a process holds.
type held struct{ descriptors, goroutines, mappings, heap int }

// holds counts after a collection: mappings of pages that no reader has end with it.
func holds(t *testing.T) held {
	t.Helper()
	for i := 0; i < 3; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // finalizers run beside
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return held{
		len(descriptors), runtime.NumGoroutine(), strings.Count(string(maps), "/pages/"), int(readHeap().live),
	}
}

// settles waits until no more is held than before, but for this many bytes of heap.
func (before held) settles(t *testing.T, bytes int) {
	t.Helper()
	var now held
	eventually(t, "nothing is left behind", func() bool {
		now = holds(t)
		return now.descriptors <= before.descriptors && now.goroutines <= before.goroutines &&
			now.mappings <= before.mappings && now.heap <= before.heap+bytes
	})
}

func TestAHundredPrincipalsLeaveNothingBehind(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	comeAndGo := func() {
		p, err := Open("leaks", Options{Socket: f.socket(), Timeout: soon})
		must(t, err)
		if _, ok := p.ID(); !ok {
			t.Error("it is not joined")
		}
		stop := p.OnChange(func(Reading) uint64 { return 0 })
		must(t, p.Close())
		stop()
	}
	comeAndGo()
	eventually(t, "the first has ended", func() (ended bool) {
		f.state(func() { ended = len(f.gone) == 1 && len(f.conns) == 0 })
		return ended
	})
	before := holds(t)
	for i := 0; i < 100; i++ {
		comeAndGo()
	}
	before.settles(t, mib)
}

func TestAChaoticBrokerCostsNothing(t *testing.T) {
	length := 5 * time.Second
	if text := os.Getenv("PLIMSOLL_CHAOS_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		must(t, err)
		length = time.Duration(seconds) * time.Second
	}
	dir := t.TempDir()
	before := holds(t)
	f := startFake(t, dir, good, 1)
	var all []*Principal
	for i := 0; i < 4; i++ {
		p, err := Open("chaos", Options{Socket: f.socket(), NoProcess: i > 0, Timeout: 100 * time.Millisecond})
		must(t, err)
		all = append(all, p)
	}
	end := make(chan struct{})
	var users sync.WaitGroup
	for _, p := range all {
		users.Add(1)
		go func(p *Principal) {
			defer users.Done()
			useUntil(t, p, end)
		}(p)
	}
	f = chaos(t, f, dir, length)
	f.state(func() { f.script, f.frozen = good, false })
	close(end)
	users.Wait()
	for _, p := range all {
		eventually(t, "it is joined again", func() bool {
			_, ok := p.ID()
			return ok && p.Read().Source == SourceBroker
		})
		must(t, p.Close())
	}
	f.kill()
	before.settles(t, 4*mib)
}

// chaos lets the broker misbehave in every way, die and come back, for a time. It returns the last one.
func chaos(t *testing.T, f *fake, dir string, length time.Duration) *fake {
	scripts := []script{
		good, good, good, silent, late, truncated, garbage, endless, liar, refuses, strict, elsewhere,
		noPage, shortPage, newerPage, wrongPage, pipePage, dies,
	}
	seed := time.Now().UnixNano()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewSource(seed))
	next := uint64(1)
	for stop := time.Now().Add(length); time.Now().Before(stop); {
		time.Sleep(time.Duration(random.Intn(50)) * time.Millisecond)
		f.state(func() {
			f.delay = time.Duration(random.Intn(200)) * time.Millisecond
			f.script = scripts[random.Intn(len(scripts))]
			f.frozen = random.Intn(10) == 0
			next = max(next, f.nextID)
		})
		switch id := next - uint64(random.Intn(5)); random.Intn(4) {
		case 0:
			f.kill()
			f = startFake(t, dir, good, next+1)
		case 1:
			_ = os.Truncate(f.pagePath(id), int64(random.Intn(2)*100))
		default:
			f.state(func() {
				if page := f.pages[id]; page != nil {
					page.write(Numbers{
						Limit: random.Uint64(), Owed: random.Uint64() >> random.Intn(64), Uses: random.Uint64(),
						Deadline: random.Uint64(), Level: Level(random.Intn(3)), Sensed: random.Uint64(),
					})
				}
			})
		}
	}
	return f
}

// useUntil uses a principal as programs do.
func useUntil(t *testing.T, p *Principal, end <-chan struct{}) {
	stop := p.OnChange(func(now Reading) uint64 { return now.Owed / 2 })
	defer stop()
	for i := uint64(1); ; i++ {
		select {
		case <-end:
			return
		default:
		}
		if now := p.Read(); now.Level > LevelCritical || now.Source > SourceLocal {
			t.Errorf("it reads %+v", now)
		}
		p.Report(Report{Live: Value(i)})
		if i%16 == 0 {
			p.Released(i)
			_ = p.SetWeight(int(i%10_000) + 1)
		}
		time.Sleep(time.Millisecond)
	}
}
