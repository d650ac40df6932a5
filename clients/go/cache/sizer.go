package cache

import (
	"runtime/metrics"
	"time"

	"plimsoll"
)

const (
	steps     = 4       // a debt is given back in as many steps as the deadline allows
	leastStep = 8 << 20 // bytes; each step costs a collection
	growPart  = 2       // the cache takes one part in this many of the room at a time
	// One part in this many of what the program may use stays free for the collector.
	collectorPart = 5
	fullPart      = 16 // a cache is full when less than one part in this many of it is free
)

// sizer decides how large the cache may be. All sizes are bytes.
type sizer struct {
	most     uint64        // the most that the cache can make use of; 0: as much as it may have
	reaction time.Duration // how long the last step of giving back took
}

// maximum is how large a cache of this size may become. It grows only while the program uses less than its
// limit, and leaves the collector its part: otherwise collections would take all processor time.
func (s *sizer) maximum(now plimsoll.Reading, size uint64, heap heap) uint64 {
	usable := now.Limit - now.Limit/collectorPart
	beside := minus(now.Uses, heap.mapped)
	room := min(now.Room(), minus(usable, beside+heap.objects))
	maximum := size + room/growPart
	if s.most > 0 {
		maximum = min(maximum, s.most)
	}
	return maximum
}

func (s *sizer) isFull(size, maximum uint64) bool { return size >= maximum-maximum/fullPart }

// step is the first size of a step of giving back.
func (s *sizer) step(owed uint64) uint64 { return max(owed/steps, leastStep) }

// next is how much to drop now: a step, or all that is owed where the deadline leaves no time for more steps.
func (s *sizer) next(step uint64, now plimsoll.Reading) uint64 {
	left := time.Duration(now.Owed/max(step, 1)+1) * s.reaction
	if now.TimeLeft() < 2*left {
		return now.Owed
	}
	return min(step, now.Owed)
}

// report is what the broker has to know: the program's use without the cache is its floor, and that with all
// the data that the cache would keep is its demand.
func (s *sizer) report(now plimsoll.Reading, size uint64, isFull bool) plimsoll.Report {
	beside := minus(now.Uses, size)
	wants := size + size/8
	switch {
	case s.most > 0:
		wants = s.most + s.most/(collectorPart-1)
	case isFull:
		wants = max(2*size, minus(now.Available, beside))
	}
	report := plimsoll.Report{Demand: plimsoll.Value(beside + wants), Floor: &beside}
	if s.reaction > 0 {
		report.ReactionMS = plimsoll.Value(uint64(s.reaction.Milliseconds()))
	}
	return report
}

// heap is the memory of Go's runtime.
type heap struct {
	mapped  uint64 // all that it has from the system
	objects uint64 // objects that are live, or not yet collected
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	number := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{mapped: minus(number(0), number(1)), objects: number(2)}
}

func minus(a, b uint64) uint64 { return a - min(a, b) }
