// Package govern has the rule of what a limit means inside a program: how large the heap of one process may
// be, when it gives memory back and down to what, how fast the program allocates, and when it reports. It is
// pure: no clock and no I/O. Sizes are bytes, times are nanoseconds, rates are bytes per second.
//
// A limit is for a process and its family together: its descendants, unless they are principals of their own.
// The broker counts all of them; a process knows only its own use. So the family's use is the difference. The
// broker's count is older, and differs while this process grows or shrinks, or forks a child that is gone a
// moment later. Therefore the least difference of the last looks is taken.
package govern

import (
	"math/bits"
	"time"
)

const (
	second      = 1_000_000_000
	millisecond = 1_000_000

	// ReportEvery is the time between two reports.
	ReportEvery = second

	releaseRests = 4 // after a release, the next waits for this many times what it took
	// While memory is owed, a release that did not help is repeated after the first pause, and then after ever
	// longer ones: live data that exceed the limit are collected in vain.
	firstPause    = 500 * millisecond
	longestPause  = 30 * second
	fellPart      = 32 // a limit that fell by one part in this many is reason for another release at once
	toleratedPart = 4  // while nothing is owed, one part in this many of the bytes left unused is tolerated
)

// Granted are the broker's numbers.
type Granted struct {
	Limit uint64 // may be used now
	Owed  uint64 // must be given back
	Uses  uint64 // use of the process and its family as the broker counts it; 0 if unknown
}

// Own is the memory of this process, as it measures it.
type Own struct {
	Resident uint64 // anonymous memory that is resident
	Beside   uint64 // the part of it that is not the heap
	Needs    uint64 // the smallest heap with which the program can go on
	Guard    uint64 // bytes to be allocated between two collections, however small the heap is
}

// Step is the result of a look.
type Step struct {
	Family       uint64  // use of the rest of the family
	ProcessLimit uint64  // this process may use as much before it collects
	HeapLimit    uint64  // the part of that for its heap
	Release      bool    // the use is too high: the heap is to shrink to ReleaseTo now
	ReleaseTo    uint64  // a size of the heap
	MayRelease   bool    // a release would help, as far as the last one tells
	Report       *Report // a report that is due; nil when none is
}

// Report is what the governor knows; who sends it adds what the collector knows.
type Report struct {
	AllocationRate *uint64 // nil in the first second
	Floor          uint64
	ReactionMS     uint64
}

// Governor governs one process. Make it with [New]; one goroutine may use it at a time.
type Governor struct {
	beside window // memory beside the heap, at the last looks
	family window // the broker's count less this process's use, at the last looks
	rate   rate
	last   released

	// At the last look.
	resident, excess, owed, limit uint64

	again    bool // the last look allowed a release only because of the time since the one before
	reported uint64
}

// released is the last release, so that one that did not help is not repeated in vain.
type released struct {
	at, took uint64
	limit    uint64
	excess   uint64 // use above the threshold after it, or what was still owed
	reached  bool   // the use fell to what is tolerated and nothing was owed, then or later
	pause    uint64 // time until it is repeated if it did not help and memory is owed
}

// New returns the governor of a process that has allocated this many bytes until now.
func New(now, allocated uint64) *Governor {
	return &Governor{rate: rate{started: now, looked: now, allocated: allocated}}
}

// Measure measures how fast the program allocates, of the bytes that it has ever allocated. It is called
// before [Governor.Step], and also while there are no numbers.
func (g *Governor) Measure(now, allocated uint64) (perSecond uint64) {
	g.rate.look(now, allocated)
	return g.rate.smoothed
}

// Step is one look at the broker's numbers and at this process.
func (g *Governor) Step(now uint64, granted Granted, own Own) Step {
	g.beside.push(own.Beside)
	// A broker that has not counted yet, or is away, knows of no family.
	if granted.Uses > 0 {
		g.family.push(minus(granted.Uses, own.Resident))
	}
	beside, family := g.beside.most(), g.family.least()
	usable := threshold(granted.Limit)
	unused := granted.Limit - usable
	above := minus(plus(own.Resident, family), usable)
	g.resident, g.limit, g.owed = own.Resident, granted.Limit, granted.Owed
	g.excess = max(above, granted.Owed)
	owes := granted.Owed > 0
	over := isOver(above, owes, unused)
	// A release may take effect later, where another thread collects.
	g.last.reached = g.last.reached || !over && !owes
	step := Step{Family: family, MayRelease: g.mayRelease(now, owes, own.Guard)}
	left := func(most uint64) uint64 {
		if g.paysAlone(now) {
			return minus(most, family)
		}
		return partOfFamily(most, own.Resident, family)
	}
	step.ProcessLimit = left(usable)
	step.HeapLimit = minus(step.ProcessLimit, beside)
	if step.Release = over && step.MayRelease; step.Release {
		step.ReleaseTo = minus(left(lowWater(granted.Limit)), beside)
	}
	step.Report = g.report(now, plus(plus(beside, family), plus(own.Needs, unused)))
	return step
}

// Released tells that a release ended, and what this process uses after it.
func (g *Governor) Released(began, ended, resident uint64) {
	usable := threshold(g.limit)
	above := minus(plus(resident, g.family.least()), usable)
	owed := minus(g.owed, minus(g.resident, resident))
	pause := uint64(firstPause)
	if g.again {
		pause = min(g.last.pause*2, longestPause)
	}
	g.last = released{
		at:      ended,
		took:    minus(ended, began),
		limit:   g.limit,
		excess:  max(above, owed),
		reached: owed == 0 && !isOver(above, false, g.limit-usable),
		pause:   pause,
	}
}

// Pause is the time until the next look: shorter while the program allocates, longer where news end the wait,
// and long while there are no numbers.
func (g *Governor) Pause(hasNumbers, isHeard bool) time.Duration {
	switch {
	case hasNumbers && g.rate.smoothed > 0:
		return 50 * time.Millisecond
	case !isHeard:
		return 100 * time.Millisecond
	case hasNumbers:
		return 500 * time.Millisecond
	}
	return time.Second
}

func (g *Governor) mayRelease(now uint64, owes bool, guard uint64) bool {
	last := &g.last
	since := minus(now, last.at)
	rests := times(last.took, releaseRests)
	isLower := g.limit < last.limit-last.limit/fellPart
	hasGrown := g.excess > plus(last.excess, times(guard, 2))
	helps := isLower || since >= rests && (last.reached || hasGrown)
	g.again = !helps && owes && since >= max(last.pause, rests)
	return last.at == 0 || helps || g.again
}

// paysAlone tells whether the rest of the family had its time to give its part, and did not: it cannot.
func (g *Governor) paysAlone(now uint64) bool {
	return g.last.at > 0 && !g.last.reached && minus(now, g.last.at) >= firstPause
}

func (g *Governor) report(now, floor uint64) *Report {
	if minus(now, g.reported) < ReportEvery {
		return nil
	}
	g.reported = now
	return &Report{AllocationRate: g.rate.known(), Floor: floor, ReactionMS: g.last.took / millisecond}
}

// isOver tells whether bytes above the threshold are too many, below a limit that leaves bytes unused.
func isOver(above uint64, owes bool, unused uint64) bool {
	if owes {
		return above > 0
	}
	return above > unused/toleratedPart
}

// partOfFamily is what is left to one process where the family can give memory back as well: while all use
// more than most, each member gives the same part. If each gave the whole excess, it would be given many times.
func partOfFamily(most, resident, family uint64) uint64 {
	all := plus(resident, family)
	excess := minus(all, most)
	if excess == 0 {
		return minus(most, family)
	}
	return minus(resident, part(excess, resident, all))
}

// threshold is the use up to which a heap may grow: 15/16 of the limit, and closer to a large limit.
func threshold(limit uint64) uint64 {
	const mostUnused = 24 << 20
	return limit - min(limit/16, mostUnused)
}

// lowWater is the use that a release goes down to: 7/8 of the threshold, and closer to a large one.
func lowWater(limit uint64) uint64 {
	const mostReleased = 32 << 20
	usable := threshold(limit)
	return usable - min(usable/8, mostReleased)
}

// Arithmetic that stops at the ends instead of wrapping.

func minus(a, b uint64) uint64 { return a - min(a, b) }

func plus(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return ^uint64(0)
}

func times(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return ^uint64(0)
}

// part is bytes*a/b.
func part(bytes, a, b uint64) uint64 {
	high, low := bits.Mul64(bytes, a)
	if high >= b {
		return ^uint64(0)
	}
	quotient, _ := bits.Div64(high, low, b)
	return quotient
}
