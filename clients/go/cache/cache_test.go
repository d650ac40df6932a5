package cache

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"plimsoll"
)

const (
	mib  = 1 << 20
	soon = time.Minute
)

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bytesOf(key int, value []byte) uint32 { return uint32(cap(value)) + 8 }

// startBroker starts a real broker that shares out 512 MiB.
func startBroker(t *testing.T) (socket string) {
	t.Helper()
	path := os.Getenv("PLIMSOLLD")
	if path == "" {
		t.Skip("skipped: PLIMSOLLD does not say where plimsolld is")
	}
	dir := t.TempDir()
	command := exec.Command(path, "--directory", dir, "--budget", "512M")
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return dir + "/broker.sock"
}

func fill(c *Cache[int, []byte], from, count int) {
	for i := from; i < from+count; i++ {
		value := make([]byte, 64<<10)
		for at := 0; at < len(value); at += 4096 {
			value[at] = 1
		}
		c.Set(i, value)
	}
}

// The cache grows by itself, gives back what a lower limit makes it owe, and grows again.
func TestItFollowsTheRealBroker(t *testing.T) {
	p, err := plimsoll.Open("cache", plimsoll.Options{Socket: startBroker(t), Timeout: soon})
	must(t, err)
	defer p.Close()
	eventually(t, "it is joined", func() bool { return p.Read().Source == plimsoll.SourceBroker })
	defer plimsoll.Follow(p)()
	c, err := New(p, otter.Options[int, []byte]{Weigher: bytesOf})
	must(t, err)
	defer c.Close()
	next := 0
	size := func() uint64 {
		fill(c, next, 20)
		next += 20
		c.CleanUp()
		return c.WeightedSize()
	}
	eventually(t, "it grows", func() bool { return size() > 60*mib })
	eventually(t, "the broker has counted it", func() bool { return p.Read().Uses > 64*mib })
	before := p.Read()
	if before.Uses > before.Limit+before.Limit/8 {
		t.Errorf("it uses %d of %d", before.Uses, before.Limit)
	}
	limit := before.Limit
	eventually(t, "it gives back under an ever lower maximum", func() bool {
		if now := p.Read(); now.Owed == 0 && now.Limit <= limit {
			limit -= limit / 16
			must(t, p.SetMax(limit))
		}
		return c.WeightedSize() < 40*mib
	})
	eventually(t, "it keeps within that", func() bool {
		now := p.Read()
		return now.Limit <= limit && now.Owed == 0 && now.Uses <= limit
	})
	// The race detector keeps memory of its own for what was there.
	if beside := minus(before.Uses, 60*mib); c.WeightedSize() == 0 && beside < limit/2 {
		t.Error("it gave back all")
	}
	t.Logf("it used %d MiB, and has %d MiB of cached data within %d MiB",
		before.Uses/mib, c.WeightedSize()/mib, limit/mib)
	must(t, p.SetMax(0))
	eventually(t, "it grows again", func() bool { return size() > 60*mib })
}

func TestWithoutABrokerItGrowsByLocalSensing(t *testing.T) {
	p, err := plimsoll.Open("cache", plimsoll.Options{Alone: true})
	must(t, err)
	defer p.Close()
	c, err := New(p, otter.Options[int, []byte]{Weigher: bytesOf, MaximumWeight: 8 * mib})
	must(t, err)
	next := 0
	eventually(t, "it grows", func() bool {
		fill(c, next, 20)
		next += 20
		c.CleanUp()
		return c.WeightedSize() > 6*mib
	})
	if c.GetMaximum() > 8*mib {
		t.Errorf("its maximum is %d", c.GetMaximum())
	}
	must(t, c.Close())
	must(t, c.Close())
}

func TestOptionsAreChecked(t *testing.T) {
	p, err := plimsoll.Open("cache", plimsoll.Options{Alone: true})
	must(t, err)
	defer p.Close()
	if _, err := New(p, otter.Options[int, []byte]{}); err == nil {
		t.Error("a cache without a weigher was made")
	}
	if _, err := New(p, otter.Options[int, []byte]{Weigher: bytesOf, MaximumSize: 5}); err == nil {
		t.Error("a cache that counts entries was made")
	}
}

func reading(limit, uses, owed uint64) plimsoll.Reading {
	return plimsoll.Reading{Numbers: plimsoll.Numbers{
		Limit: limit * mib, Available: limit * mib, Uses: uses * mib, Owed: owed * mib,
	}}
}

func TestItGrowsOnlyBelowTheLimitAndLeavesTheCollectorItsPart(t *testing.T) {
	for _, c := range []struct {
		most, limit, uses, size, mapped, objects, want uint64
	}{
		{0, 100, 50, 10, 40, 30, 10 + 20}, // half of what is left until four fifths
		{0, 100, 98, 10, 90, 50, 10 + 1},  // half of what is left until the limit
		{0, 100, 100, 10, 90, 50, 10},
		{0, 100, 120, 10, 90, 50, 10},
		{0, 100, 90, 10, 85, 80, 10}, // the rest is for the collector
		{15, 100, 50, 10, 40, 30, 15},
		{5, 100, 50, 10, 40, 30, 5},
	} {
		s := sizer{most: c.most * mib}
		found := s.maximum(reading(c.limit, c.uses, 0), c.size*mib, heap{c.mapped * mib, c.objects * mib})
		if found != c.want*mib {
			t.Errorf("%+v: %d MiB", c, found/mib)
		}
	}
}

func TestADebtIsPaidInStepsUnlessTimeIsShort(t *testing.T) {
	s := sizer{reaction: time.Millisecond}
	now := reading(100, 200, 100)
	now.Deadline = ^uint64(0)
	if step := s.step(now.Owed); step != 25*mib || s.next(step, now) != step {
		t.Errorf("a step is %d", step)
	}
	now.Deadline = 1 // it is past
	if next := s.next(25*mib, now); next != 100*mib {
		t.Errorf("without time the step is %d", next)
	}
	if step := s.step(mib); step != leastStep {
		t.Errorf("the least step is %d", step)
	}
}

func TestTheDemandIsThatOfTheWholeProgram(t *testing.T) {
	now := reading(200, 100, 0)
	for _, c := range []struct {
		most   uint64
		isFull bool
		demand uint64
	}{{0, false, 50 + 50 + 6}, {0, true, 200}, {80, true, 50 + 100}} {
		s := sizer{most: c.most * mib}
		report := s.report(now, 50*mib, c.isFull)
		if *report.Demand/mib != c.demand || *report.Floor != 50*mib || report.ReactionMS != nil {
			t.Errorf("%+v: %d MiB", c, *report.Demand/mib)
		}
	}
}

// ExampleNew is a cache that is as large as its program may make it.
func ExampleNew() {
	p, err := plimsoll.Open("my-cache", plimsoll.Options{Alone: true})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	defer plimsoll.Follow(p)()
	c, err := New(p, otter.Options[string, []byte]{
		Weigher: func(key string, value []byte) uint32 { return uint32(len(key) + cap(value)) },
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	c.Set("key", []byte("value"))
	value, _ := c.GetIfPresent("key")
	fmt.Println(string(value))
	// Output: value
}
