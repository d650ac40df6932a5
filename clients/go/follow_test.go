package plimsoll

import (
	"fmt"
	"math"
	"runtime/debug"
	"testing"
	"time"
)

// runFollow holds live data, makes garbage, and says what Go's memory limit is.
func runFollow() error {
	p, err := Open("follow", Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	stop := Follow(p)
	defer stop()
	live := make([][]byte, 16)
	for i := 0; ; i++ {
		live[i%len(live)] = make([]byte, 1<<20)
		for at := 0; at < 1<<20; at += 4096 {
			live[i%len(live)][at] = 1
		}
		if i%100 == 0 {
			now := p.Read()
			fmt.Printf("limit %d uses %d bound %d\n", now.Limit, now.Uses, debug.SetMemoryLimit(-1))
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTheMemoryLimitFollows(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	// The broker counts no children.
	limited := func(limit uint64) Numbers { return Numbers{Limit: limit, Available: limit, Uses: 1} }
	f.publish(1, limited(1<<30))
	stop := Follow(p)
	below := func(bytes int64) func() bool {
		return func() bool {
			limit := debug.SetMemoryLimit(-1)
			return limit < bytes && limit > bytes/2
		}
	}
	eventually(t, "it has the limit", below(1<<30))
	f.publish(1, limited(512*mib))
	eventually(t, "and a lower one", below(512*mib))
	f.publish(1, limited(mib))
	eventually(t, "but what is live stays", func() bool {
		limit := debug.SetMemoryLimit(-1)
		return limit < 512*mib/2 && limit > guardLeast
	})
	eventually(t, "the broker has a report", func() (has bool) {
		f.state(func() { has = len(f.reports) > 0 && *f.reports[0].Floor > 0 })
		return has
	})
	stop()
	if limit := debug.SetMemoryLimit(-1); limit != before {
		t.Errorf("the limit is %d", limit)
	}
	stop()
}

func TestTheUsersLimitStaysTheUpperBound(t *testing.T) {
	before := debug.SetMemoryLimit(300 * mib)
	defer debug.SetMemoryLimit(before)
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	await(t, p, EventJoined)
	f.publish(1, numbersOf(1<<30))
	follow := &follower{p: p, users: 300 * mib, set: 300 * mib}
	follow.bound(1 << 30)
	follow.bound(math.MaxUint64)
	if limit := debug.SetMemoryLimit(-1); limit != 300*mib {
		t.Errorf("the limit is %d", limit)
	}
	if granted, ok := follow.granted(); !ok || granted.Limit != 1<<30 {
		t.Errorf("it has %+v", granted)
	}
	f.kill()
	await(t, p, EventBrokerLost)
	if granted, ok := follow.granted(); !ok || granted.Limit > 1<<30 {
		t.Errorf("it has %+v", granted)
	}
	follow = &follower{p: p}
	if granted, ok := follow.granted(); ok {
		t.Errorf("no broker gave it %+v", granted)
	}
}

func TestOwedBytesAreCollected(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	garbage := make([][]byte, 64)
	for i := range garbage {
		garbage[i] = make([]byte, mib)
		for at := 0; at < mib; at += 4096 {
			garbage[i][at] = 1
		}
	}
	if len(garbage) != 64 {
		t.Fatal("it is kept until here")
	}
	defer Follow(p)()
	owed := numbersOf(50 * mib)
	owed.Uses, owed.Owed, owed.Deadline, owed.Sensed = 80*mib, 30*mib, monotonic()+1e9, monotonic()
	f.publish(1, owed)
	eventually(t, "the broker is told", func() (told bool) {
		f.state(func() { told = f.released >= 30*mib })
		return told
	})
}

func TestAProgramKeepsWithinALimitOfTheRealBroker(t *testing.T) {
	b := startBroker(t, t.TempDir())
	p := startProgram(t, "follow", b.place.path)
	p.until(t, "bound")
	other := startProgram(t, "cache", b.place.path)
	eventually(t, "the other has its half", func() bool { return b.row(t, other.Process.Pid).Uses > 100*mib })
	eventually(t, "it owes nothing and keeps within its limit", func() bool {
		now := b.row(t, p.Process.Pid)
		return now.Uses > 16*mib && now.Uses <= now.Limit && now.Owed == 0
	})
}
