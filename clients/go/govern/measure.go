package govern

import "math/bits"

const (
	looks       = 8 // over which the memory beside the heap is taken as the most, and the family's as the least
	smoothOver  = second
	measureOver = 20 * millisecond // the shortest time over which the rate is measured
)

// window has the values of the last looks; 0 before the first ones.
type window struct {
	values [looks]uint64
	next   int
}

func (w *window) push(value uint64) {
	w.values[w.next] = value
	w.next = (w.next + 1) % looks
}

func (w *window) most() uint64 {
	most := w.values[0]
	for _, value := range w.values {
		most = max(most, value)
	}
	return most
}

func (w *window) least() uint64 {
	least := w.values[0]
	for _, value := range w.values {
		least = min(least, value)
	}
	return least
}

// rate is how fast the program allocates.
type rate struct {
	started   uint64
	looked    uint64 // when bytes were last counted
	allocated uint64 // how many there were
	smoothed  uint64 // bytes per second
}

// look mixes in the rate since the last look. While the program starts, all looks count alike.
func (r *rate) look(now, allocated uint64) {
	passed := minus(now, r.looked)
	if passed < measureOver {
		return
	}
	fresh := part(minus(allocated, r.allocated), second, passed)
	whole := min(minus(now, r.started), smoothOver)
	passed = min(passed, whole)
	oldHigh, oldLow := bits.Mul64(r.smoothed, whole-passed)
	newHigh, newLow := bits.Mul64(fresh, passed)
	low, carry := bits.Add64(oldLow, newLow, 0)
	high, _ := bits.Add64(oldHigh, newHigh, carry)
	// The mean of two numbers is no more than the larger, so that the quotient fits.
	r.smoothed, _ = bits.Div64(high, low, whole)
	r.looked, r.allocated = now, allocated
}

// known is nil in the first second: a program allocates differently while it starts.
func (r *rate) known() *uint64 {
	if minus(r.looked, r.started) < smoothOver {
		return nil
	}
	smoothed := r.smoothed
	return &smoothed
}
