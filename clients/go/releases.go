package plimsoll

import "sort"

// mostReleases are remembered one by one; further ones join the last.
const mostReleases = 16

// releases are memory that the program gave back and that the numbers do not show yet, oldest first. A broker
// looks some milliseconds after memory was freed, and numbers that were on their way are older still.
// Without this, a debt that was paid would be told again, and paid twice.
type releases struct {
	list []release
}

type release struct{ at, bytes uint64 }

// unseen are the releases that a reading does not show.
func (r *releases) unseen(shown *Reading) []release {
	asOf := shown.asOf()
	first := sort.Search(len(r.list), func(i int) bool { return r.list[i].at > asOf })
	return r.list[first:]
}

// add notes that bytes were given back before now, and forgets the releases that `shown` includes.
func (r *releases) add(bytes, now uint64, shown *Reading) {
	kept := append(make([]release, 0, mostReleases), r.unseen(shown)...)
	if len(kept) == mostReleases {
		last := &kept[mostReleases-1]
		last.at, last.bytes = now, plus(last.bytes, bytes)
	} else {
		kept = append(kept, release{now, bytes})
	}
	r.list = kept
}

// settle returns the reading as it will be once the broker has seen what was given back.
func (r *releases) settle(shown Reading) Reading {
	var paid uint64
	for _, unseen := range r.unseen(&shown) {
		paid = plus(paid, unseen.bytes)
	}
	shown.Uses = minus(shown.Uses, paid)
	if shown.Owed > 0 && paid > 0 {
		shown.Owed = minus(shown.Owed, paid)
		if shown.Owed == 0 {
			shown.Deadline, shown.Level = 0, LevelNormal
		}
	}
	return shown
}
