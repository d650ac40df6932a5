package plimsoll

import (
	"container/list"
	"math"
	"time"
)

const (
	ghostMiB = 1 << 20
	// The list stands for one part in this many of the cache's size more, and for a MiB at least.
	ghostPart = 8
	// The shortest time over which is measured, and the time over which the worth of before is forgotten.
	ghostMeasure = time.Second
	ghostSmooth  = 8 * time.Second
)

// A Ghost tells the worth of more memory to a cache, by the keys that it evicted last: a miss of one of these
// would be a hit in a cache that is larger by as much as the list stands for. It has no clock; times count
// from any fixed moment. One goroutine may use it at a time. [NewGhost] makes one.
//
// It takes some 150 bytes for each of an eighth of the cache's entries. A cache with very many small ones can
// tell it of every n-th hash alone, and multiply bytes and costs by n.
type Ghost struct {
	keys     map[uint64]*list.Element
	order    list.List // of ghostKey, the one that was evicted first in front
	held     uint64    // bytes of its keys' entries
	capacity uint64
	saved    time.Duration // that hits in the list would have saved since `begun`
	begun    time.Duration
	worth    float64 // nanoseconds per second and MiB, smoothed
	measured bool
}

type ghostKey struct{ key, bytes uint64 }

// NewGhost returns the empty list of a cache that begins now.
func NewGhost(now time.Duration) *Ghost {
	return &Ghost{keys: map[uint64]*list.Element{}, capacity: ghostMiB, begun: now}
}

// Has tells whether a miss of a key would count now.
func (g *Ghost) Has(key uint64) bool { return g.keys[key] != nil }

// Evicted tells that the cache has dropped an entry of this many bytes to make room, and is of size left now.
// The key is a hash of the entry's.
func (g *Ghost) Evicted(key, bytes, left uint64) {
	g.forget(g.keys[key])
	g.keys[key] = g.order.PushBack(ghostKey{key, bytes})
	g.held = plus(g.held, bytes)
	g.capacity = max(left/ghostPart, ghostMiB)
	for g.held > g.capacity && g.order.Len() > 0 {
		g.forget(g.order.Front())
	}
}

// Missed tells that the cache did not have an entry, and that making it took this long.
func (g *Ghost) Missed(key uint64, cost time.Duration) {
	if g.forget(g.keys[key]) {
		g.saved += min(cost, math.MaxInt64-g.saved)
	}
}

// Worth returns the nanoseconds per second that one more MiB would have saved the cache lately; false in the
// first second. It is to be reported as [Report].Worth.
func (g *Ghost) Worth(now time.Duration) (worth uint64, ok bool) {
	if took := now - g.begun; took >= ghostMeasure {
		rate := float64(g.saved) / took.Seconds() / (float64(g.capacity) / ghostMiB)
		if g.measured {
			rate = g.worth + float64(took)/float64(took+ghostSmooth)*(rate-g.worth)
		}
		g.worth, g.measured = rate, true
		g.saved, g.begun = 0, now
	}
	return uint64(math.Round(g.worth)), g.measured
}

// forget takes a key out, and tells whether it was there.
func (g *Ghost) forget(place *list.Element) bool {
	if place == nil {
		return false
	}
	found := g.order.Remove(place).(ghostKey)
	delete(g.keys, found.key)
	g.held -= min(found.bytes, g.held)
	return true
}
