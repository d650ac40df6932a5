package plimsoll

import (
	"time"

	"plimsoll/internal/sense"
)

// Local sensing is conservative, because other programs may sense the same free bytes. It takes a part of
// what is free beyond a reserve, and looks again.
const (
	partOfFree  = 4        // a program takes one part in this many at a time
	reservePart = 50       // the reserve is one part in this many of the capacity, within these bounds
	reserveMin  = 32 << 20 // bytes
	reserveMax  = 1 << 30
	hysteresis  = 1 << 20       // numbers that change by less, in bytes, stay as they were
	patience    = 1_000_000_000 // ns to pay a debt
	// How long the last limit of a dead broker holds (ns): the sum of these limits was safe.
	grace = 10_000_000_000
)

const noBound = ^uint64(0)

// local senses for one principal.
type local struct {
	sensor *sense.Sensor
	last   Numbers
	bound  uint64 // the dead broker's limit
	until  uint64 // how long it holds
}

// inherit keeps the limit of a lost broker as a bound for a while.
func (l *local) inherit(limit, now uint64) {
	l.bound, l.until = limit, plus(now, grace)
	l.last = Numbers{}
}

// sense returns the present numbers.
func (l *local) sense(now uint64) Numbers {
	bound := noBound
	if l.bound > 0 && now < l.until {
		bound = l.bound
	}
	fresh := decide(l.sensor.Look(), bound, &l.last, now)
	if !isClose(&fresh, &l.last) {
		l.last = fresh
	}
	l.last.Uses, l.last.Sensed = fresh.Uses, fresh.Sensed
	return l.last
}

// interval is the pause until the next look: short while memory is short.
func (l *local) interval() time.Duration {
	if l.last.Level == LevelNormal {
		return 500 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// decide returns the numbers that follow from what was sensed. The limit never exceeds the bound. A debt
// keeps its deadline until it is paid.
func decide(sensed sense.Sensed, bound uint64, last *Numbers, now uint64) Numbers {
	floor := min(reserveMin, sensed.Capacity/8)
	reserve := min(max(sensed.Capacity/reservePart, floor), max(reserveMax, floor))
	free := minus(sensed.Room, reserve)
	owed := min(minus(reserve, sensed.Room), sensed.Uses/2)
	n := Numbers{
		Limit:     min(minus(plus(sensed.Uses, free/partOfFree), owed), bound),
		Available: plus(sensed.Uses, free),
		Owed:      owed,
		Uses:      sensed.Uses,
		Sensed:    now,
	}
	if owed > 0 {
		n.Deadline = last.Deadline
		if n.Deadline == 0 {
			n.Deadline = plus(now, patience)
		}
	}
	switch {
	case sensed.Room < reserve/4, owed > 0 && now > n.Deadline:
		n.Level = LevelCritical
	case sensed.Room < reserve:
		n.Level = LevelWarning
	}
	return n
}

// isClose tells whether a change is too small to tell: under 1 MiB or 1 %, with nothing else changed.
func isClose(a, b *Numbers) bool {
	near := func(a, b uint64) bool { return max(a, b)-min(a, b) <= max(hysteresis, b/100) }
	return a.Level == b.Level && a.Deadline == b.Deadline && (a.Owed == 0) == (b.Owed == 0) &&
		near(a.Owed, b.Owed) && near(a.Limit, b.Limit) && near(a.Available, b.Available)
}
