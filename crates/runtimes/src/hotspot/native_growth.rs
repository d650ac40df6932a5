//! Sudden growth of native memory, and how much is kept free for it where an excess ends the
//! program. Pure: no clock.

use super::control::RETURNING;
use super::sizing_flags::{Levers, SizedBy};
use plimsoll_policy::footprint::{late_surprise, surprise};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};

/// The least time over which the growth of native memory is measured.
const SPAN: Nanos = Nanos::millis(150);
/// Growth is expected to go on for this long.
const GOES_ON: Nanos = Nanos::seconds(2);
/// Milliseconds from a shortage until a collection has freed memory, on a busy computer.
const REACTION_MS: u64 = 500;
/// Milliseconds from a shortage until a collection is under way.
const ASKING_MS: u64 = 150;

/// The native memory of one machine over time. Changed by its steering loop alone.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// The collector gives memory back a second or more after it became free. Never changes.
    late: bool,
    /// The first measurement.
    first: Option<Bytes>,
    /// The last two measurements, the older one first: time and size.
    marks: [(Nanos, Bytes); 2],
    /// The committed heap at the last look.
    committed: Bytes,
    /// Until when memory of a shrunk heap may still be resident.
    returning: Nanos,
    /// The last look at the whole process: time and use.
    used: (Nanos, Bytes),
    /// How fast the use of the process grew before that look, in a second.
    pace: Bytes,
    /// The fastest recent growth in a second, and until when it counts.
    fastest: (Bytes, Nanos),
}

impl Growth {
    /// Knows nothing yet of the machine with these levers.
    pub(super) fn of(levers: &Levers) -> Growth {
        Growth {
            late: levers.sized_by == SizedBy::SoftMax && !levers.returns_on_change,
            ..Growth::default()
        }
    }

    /// Takes in one look: native memory, committed heap, and use of the process.
    pub(super) fn look(&mut self, now: Nanos, native: Bytes, committed: Bytes, uses: Bytes) {
        let passed_ms = (now - self.used.0).0 / MILLISECOND;
        if passed_ms >= 20 {
            self.pace = (uses - self.used.1) * 1000 / passed_ms;
            self.used = (now, uses);
        }
        if committed < self.committed {
            // Until then memory that the heap gave up may be mistaken for native.
            self.returning = now + RETURNING;
        }
        self.committed = committed;
        if self.first.is_none() || now < self.returning {
            self.first.get_or_insert(native);
            self.marks = [(now, native); 2];
        }
        if now > self.fastest.1 {
            self.fastest = (Bytes::ZERO, now);
        }
        if now - self.marks[1].0 < SPAN {
            return;
        }
        let (then, before) = self.marks[0];
        let passed_ms = (now - then).0 / MILLISECOND;
        let rate = (native - before) * 1000 / passed_ms.max(1);
        if rate > self.fastest.0 {
            self.fastest = (rate, now + GOES_ON);
        }
        self.marks = [self.marks[1], (now, native)];
    }

    /// The memory to keep free below `limit`. Growth that has happened needs no reserve any more,
    /// but more may follow, and present growth goes on.
    pub(super) fn spare(&self, limit: Bytes) -> Bytes {
        self.left_of(surprise(limit), limit)
    }

    /// The same as far as the heap can do without it, if the collector gives memory back late; 0 with other
    /// collectors. It is more for a program that may use most of a computer or group with this capacity.
    /// Programs that share one have too little for that.
    pub(super) fn ample(&self, limit: Bytes, capacity: Bytes) -> Bytes {
        if !self.late {
            return Bytes::ZERO;
        }
        let large = self.left_of(late_surprise(capacity), limit);
        // Half of the memory that the limit leaves to others is taken to be free. So the rest of the
        // limit never becomes smaller when the limit rises.
        let beside = (capacity - limit) / 2;
        self.spare(limit).max(large - beside)
    }

    /// The part of a `surprise` that is still to be kept free.
    fn left_of(&self, surprise: Bytes, limit: Bytes) -> Bytes {
        let first = self.first.unwrap_or_default();
        let grown = self.marks[1].1 - first;
        let left = surprise - grown;
        let goes_on = self.fastest.0 * REACTION_MS / 1000;
        left.max(limit / 16).max(goes_on.min(limit / 2))
    }

    /// The part of [`Growth::spare`] that must remain until a collection is under way. With
    /// less free memory a program is treated as over its limit.
    pub(super) fn kept(&self, limit: Bytes) -> Bytes {
        let fills = self.pace * ASKING_MS / 1000;
        fills.max(limit / 16).min(self.spare(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;
    const LIMIT: u64 = 240 * MIB;
    const HEAP: u64 = 100 * MIB;
    const LOOK: Nanos = Nanos::millis(50);

    fn grown(megabytes_each: u64, looks: u64) -> Growth {
        let mut growth = Growth::default();
        for look in 0..looks {
            growth.look(
                LOOK * look,
                Bytes((40 + look * megabytes_each) * MIB),
                Bytes(HEAP),
                Bytes::ZERO,
            );
        }
        growth
    }

    #[test]
    fn a_surprise_that_has_come_is_none_any_more() {
        assert_eq!(grown(0, 20).spare(Bytes(LIMIT)), Bytes(LIMIT / 4));
        let mut growth = grown(0, 20);
        growth.look(LOOK * 100, Bytes::mib(80), Bytes(HEAP), Bytes::ZERO);
        // The growth is long over.
        growth.look(LOOK * 200, Bytes::mib(80), Bytes(HEAP), Bytes::ZERO);
        assert_eq!(growth.spare(Bytes(LIMIT)), Bytes(LIMIT / 4 - 40 * MIB));
    }

    #[test]
    fn what_is_given_back_too_late_is_kept_free_in_advance() {
        let late = Growth {
            late: true,
            ..Growth::default()
        };
        assert_eq!(late.spare(Bytes(LIMIT)), Bytes::mib(60));
        assert_eq!(late.ample(Bytes(LIMIT), Bytes(LIMIT)), Bytes::mib(150));
        assert_eq!(
            Growth::default().ample(Bytes(LIMIT), Bytes(LIMIT)),
            Bytes::ZERO
        );
        assert_eq!(
            late.ample(Bytes::mib(2048), Bytes::mib(2048)),
            Bytes::mib(160)
        );
    }

    #[test]
    fn of_memory_that_others_share_no_more_is_kept_free() {
        let growth = Growth {
            late: true,
            ..Growth::default()
        };
        assert_eq!(
            growth.ample(Bytes(LIMIT), Bytes(LIMIT + 40 * MIB)),
            Bytes::mib(140)
        );
        for capacity in [3, 5, 100] {
            assert_eq!(
                growth.ample(Bytes(LIMIT), Bytes(capacity * LIMIT)),
                growth.spare(Bytes(LIMIT))
            );
        }
    }

    #[test]
    fn a_higher_limit_leaves_no_less_to_the_heap() {
        for capacity in [256, 512, 1024] {
            let growth = Growth {
                late: true,
                ..grown(8, 10)
            };
            let left = |limit: u64| {
                Bytes::mib(limit) - growth.ample(Bytes::mib(limit), Bytes::mib(capacity))
            };
            let falls = |limit: &u64| left(limit + 1) < left(*limit);
            assert_eq!((20..capacity).find(falls), None, "{capacity}");
        }
    }

    #[test]
    fn growth_that_has_come_is_taken_off_what_is_kept_free_for_it() {
        let mut growth = Growth {
            late: true,
            ..grown(0, 20)
        };
        let before = growth.ample(Bytes(LIMIT), Bytes(LIMIT));
        growth.look(LOOK * 100, Bytes::mib(80), Bytes(HEAP), Bytes::ZERO);
        growth.look(LOOK * 200, Bytes::mib(80), Bytes(HEAP), Bytes::ZERO);
        assert_eq!(
            growth.ample(Bytes(LIMIT), Bytes(LIMIT)),
            before - Bytes::mib(40)
        );
    }

    #[test]
    fn a_heap_that_became_smaller_is_no_native_memory() {
        let mut growth = grown(0, 20);
        // Memory that the heap gives up stays resident for a while.
        growth.look(LOOK * 21, Bytes::mib(90), Bytes(HEAP / 2), Bytes::ZERO);
        growth.look(LOOK * 25, Bytes::mib(80), Bytes(HEAP / 2), Bytes::ZERO);
        growth.look(LOOK * 29, Bytes::mib(40), Bytes(HEAP / 2), Bytes::ZERO);
        growth.look(LOOK * 40, Bytes::mib(40), Bytes(HEAP / 2), Bytes::ZERO);
        assert_eq!(growth.spare(Bytes(LIMIT)), Bytes(LIMIT / 4));
    }

    #[test]
    fn what_fills_fast_is_collected_early() {
        let mut growth = grown(0, 20);
        assert_eq!(growth.kept(Bytes(LIMIT)), Bytes(LIMIT / 16));
        growth.look(LOOK * 20, Bytes::mib(40), Bytes(HEAP), Bytes::mib(100));
        // 300 MB/s.
        growth.look(LOOK * 21, Bytes::mib(40), Bytes(HEAP), Bytes::mib(115));
        assert_eq!(growth.kept(Bytes(LIMIT)), Bytes::mib(45));
    }

    #[test]
    fn room_is_kept_for_what_grows_until_it_stands() {
        // 160 MB/s.
        let mut growth = grown(8, 10);
        let spare = growth.spare(Bytes(LIMIT));
        assert!(
            (Bytes::mib(75)..=Bytes::mib(85)).contains(&spare),
            "{spare}"
        );
        for look in 10..80 {
            growth.look(LOOK * look, Bytes::mib(120), Bytes(HEAP), Bytes::ZERO);
        }
        assert_eq!(growth.spare(Bytes(LIMIT)), Bytes(LIMIT / 16));
    }
}
