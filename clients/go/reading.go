package plimsoll

import (
	"fmt"
	"time"
)

// A Level says how short memory is, for programs that know levels only.
type Level uint32

const (
	LevelNormal   Level = iota // within its limit
	LevelWarning               // at its limit, or owing with time left
	LevelCritical              // owing, and the deadline is near or past
)

var levelNames = [...]string{"normal", "warning", "critical"}

// String returns "normal", "warning" or "critical".
func (l Level) String() string { return levelNames[min(l, LevelCritical)] }

// MarshalText returns the level as brokers write it.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level as brokers write it. It fails for a level that is not known.
func (l *Level) UnmarshalText(text []byte) error {
	for level, name := range levelNames {
		if name == string(text) {
			*l = Level(level)
			return nil
		}
	}
	return fmt.Errorf("%.20q is no level", text)
}

// A Source says where numbers come from.
type Source uint32

const (
	SourceBroker Source = iota // a broker that is alive
	SourceStale                // a broker that gave no sign of life lately: its last numbers
	SourceLocal                // local sensing: no broker is there
)

// String returns "broker", "stale" or "local".
func (s Source) String() string {
	return [...]string{"broker", "stale", "local"}[min(s, SourceLocal)]
}

// Numbers are the numbers of a principal at one time. Sizes are bytes, times are nanoseconds of
// CLOCK_MONOTONIC.
type Numbers struct {
	Limit     uint64 `json:"limit"`     // may be used now
	Available uint64 `json:"available"` // could be had if it asked
	Owed      uint64 `json:"owed"`      // to be given back; 0 when nothing
	Deadline  uint64 `json:"deadline"`  // by when; 0 when nothing is owed
	Uses      uint64 `json:"uses"`      // accounted to it
	Share     uint64 `json:"share"`     // its guaranteed weighted share; 0 where no broker runs
	Level     Level  `json:"level"`     // how urgent they are
	Sensed    uint64 `json:"sensed"`    // when Uses was read; 0 from a broker that does not tell
}

// settings are the numbers without those that change all the time.
func (n Numbers) settings() Numbers {
	n.Uses, n.Share, n.Sensed = 0, 0, 0
	return n
}

// A Reading is a consistent set of numbers with its source.
type Reading struct {
	Numbers
	Source     Source // where the numbers come from
	Generation uint64 // counts changes of the numbers; starts again when the source changes
	Heartbeat  uint64 // the source's last sign of life, nanoseconds of CLOCK_MONOTONIC
}

// TimeLeft returns the time until the deadline: 0 when it is past, and when nothing is owed.
func (r Reading) TimeLeft() time.Duration {
	return time.Duration(min(minus(r.Deadline, monotonic()), 1<<62))
}

// Room returns the bytes by which the program may still grow.
func (r Reading) Room() uint64 { return minus(r.Limit, r.Uses) }

// asOf is the time up to which a reading shows memory that was given back. An older broker does not say
// when it looked; then the time of its last sign of life stands for that.
func (r *Reading) asOf() uint64 {
	if r.Sensed == 0 && r.Source != SourceLocal {
		return r.Heartbeat
	}
	return r.Sensed
}

// isStale tells whether the source gave no sign of life for three seconds.
func (r *Reading) isStale(now uint64) bool { return minus(now, r.Heartbeat) > staleAfter }

// An EventKind says what happened.
type EventKind uint32

const (
	EventOwed       EventKind = iota + 1 // bytes are to be given back: a new debt, a larger one, or a new deadline
	EventRelief                          // nothing is owed any more, or the level fell
	EventChanged                         // other numbers changed, mostly the limit
	EventBrokerLost                      // the broker is gone; the numbers are local now
	EventJoined                          // a broker is (back) there and knows the principal
)

// String returns the name of the event in small letters.
func (k EventKind) String() string {
	names := [...]string{"nothing", "owed", "relief", "changed", "broker lost", "joined"}
	return names[min(int(k), len(names)-1)]
}

// An Event is something that happened to the numbers. Changes that come faster than a program waits for
// them are merged: the last numbers are always told.
type Event struct {
	Kind EventKind
	Reading
}

// told is a state that waiting goroutines were told, or are to be told.
type told struct {
	reading Reading
	joins   uint64 // counts joins, so that a broker that died and came back unseen is still told
	joined  bool
}

// newsSince returns the event that follows if before was told last; 0 if nothing that matters has changed.
func (t *told) newsSince(before *told) EventKind {
	now, then := &t.reading.Numbers, &before.reading.Numbers
	switch {
	case t.joined && (!before.joined || t.joins != before.joins):
		return EventJoined
	case before.joined && !t.joined:
		return EventBrokerLost
	case now.Owed > then.Owed, now.Owed > 0 && now.Deadline != then.Deadline:
		return EventOwed
	case then.Owed > 0 && now.Owed == 0, now.Level < then.Level:
		return EventRelief
	case now.Limit != then.Limit, now.Available != then.Available, now.Owed != then.Owed, now.Level != then.Level:
		return EventChanged
	}
	return 0
}

// minus and plus stop at the ends instead of wrapping.
func minus(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

func plus(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
