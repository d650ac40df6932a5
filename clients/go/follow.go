package plimsoll

import (
	"math"
	"os"
	"runtime/debug"
	"time"

	"plimsoll/govern"
	"plimsoll/internal/sense"
)

const (
	// A collection makes room for this part of the live data to be allocated, and for at least as much as
	// Go's smallest heap.
	guardPart  = 16
	guardLeast = 4 << 20
	// The memory limit stays as it is where it would change by less, because setting it stops the program.
	leastStep = 1 << 20
)

// Follow keeps the memory limit of Go's runtime ([debug.SetMemoryLimit]) at what this process may use, by the
// rule of package govern, until stop is called or the principal is closed. Where bytes are owed it collects,
// gives them back and tells the broker. It reports allocation, live bytes and collections.
//
// A limit that was set before (GOMEMLIMIT) stays the upper bound, and comes back at the end. So it is before a
// broker gives the first numbers. When the broker is lost, its last limit bounds what is sensed locally.
// The limit leaves room beside the live data, so that collections do not take all processor time. A program
// calls it once, for the principal of its own process.
func Follow(p *Principal) (stop func()) {
	f := &follower{
		p:        p,
		users:    debug.SetMemoryLimit(-1),
		governor: govern.New(monotonic(), readHeap().allocated),
	}
	f.set = f.users
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f.run(ended)
	}()
	return func() {
		select {
		case <-ended:
		default:
			close(ended)
		}
		<-done
	}
}

// follower belongs to the goroutine that follows.
type follower struct {
	p         *Principal
	governor  *govern.Governor
	users     int64 // the limit that was set before
	set       int64 // the limit that is set now
	lastLimit uint64
	reported  heap // at the last report
}

func (f *follower) run(ended <-chan struct{}) {
	defer debug.SetMemoryLimit(f.users)
	for {
		changed := f.p.Changed()
		timer := time.NewTimer(f.look())
		select {
		case <-changed:
		case <-timer.C:
		case <-ended:
		case <-f.p.ctx.Done():
		}
		timer.Stop()
		select {
		case <-ended:
			return
		case <-f.p.ctx.Done():
			return
		default:
		}
	}
}

// look does one look, and what follows from it. It returns the time until the next.
func (f *follower) look() time.Duration {
	now, heap := monotonic(), readHeap()
	f.governor.Measure(now, heap.allocated)
	granted, ok := f.granted()
	resident, err := sense.Uses(os.Getpid())
	if !ok || err != nil {
		if !ok {
			f.bound(math.MaxInt64)
		}
		return f.governor.Pause(false, true)
	}
	guard := max(heap.live/guardPart, guardLeast)
	own := govern.Own{
		Resident: resident,
		Beside:   minus(resident, heap.mapped),
		Needs:    heap.live + heap.overhead + guard,
		Guard:    guard,
	}
	step := f.governor.Step(now, granted, own)
	f.bound(max(step.HeapLimit, own.Needs))
	if step.Release && granted.Owed > 0 {
		f.release(resident)
	}
	if step.Report != nil {
		f.report(*step.Report, heap)
	}
	return f.governor.Pause(true, true)
}

// granted are the numbers to follow; false before a broker gave any.
func (f *follower) granted() (govern.Granted, bool) {
	reading := f.p.Read()
	granted := govern.Granted{Limit: reading.Limit, Owed: reading.Owed, Uses: reading.Uses}
	if reading.Source != SourceLocal && reading.Limit > 0 {
		f.lastLimit = reading.Limit
	}
	granted.Limit = min(granted.Limit, f.lastLimit)
	return granted, granted.Limit > 0
}

// bound sets the memory limit, not above that of the user.
func (f *follower) bound(bytes uint64) {
	limit := min(int64(min(bytes, math.MaxInt64)), f.users)
	if limit == f.set || limit != f.users && max(limit, f.set)-min(limit, f.set) < leastStep {
		return
	}
	debug.SetMemoryLimit(limit)
	f.set = limit
}

// release gives memory back.
func (f *follower) release(before uint64) {
	began := monotonic()
	freed := FreeMemory(func() {})
	ended := monotonic()
	after, err := sense.Uses(os.Getpid())
	if err != nil {
		after = minus(before, freed)
	}
	f.governor.Released(began, ended, after)
	f.p.Released(freed)
}

func (f *follower) report(due govern.Report, now heap) {
	report := Report{
		AllocationRate: due.AllocationRate,
		Floor:          &due.Floor,
		ReactionMS:     &due.ReactionMS,
	}
	if collections := now.collections - f.reported.collections; collections > 0 {
		report.Live = Value(now.live)
		report.Collections = Value(now.collections)
		report.CollectionMS = Value(uint64(now.busy * 1000))
		if busy := now.busy - f.reported.busy; busy > 0 {
			report.CollectionSpeed = Value(uint64(float64(now.live) * float64(collections) / busy))
		}
		f.reported = now
	}
	f.p.Report(report)
}
