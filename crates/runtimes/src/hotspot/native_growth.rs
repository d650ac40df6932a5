//! Sudden growth of native memory, and how much is kept free for it where an excess ends the
//! program. Pure: no clock.

use super::control::RETURNING;
use super::sizing_flags::{Levers, SizedBy};
use plimsoll_policy::footprint::{late_surprise, surprise};
use plimsoll_unit::Bytes;

/// The least time over which the growth of native memory is measured, nanoseconds.
const SPAN: u64 = 150_000_000;
/// Growth is expected to go on for this long, nanoseconds.
const GOES_ON: u64 = 2_000_000_000;
/// Milliseconds from a shortage until a collection has freed memory, on a busy computer.
const REACTION_MS: u64 = 500;
/// Milliseconds from a shortage until a collection is under way.
const ASKING_MS: u64 = 150;

/// The native memory of one machine over time. Changed by its steering loop alone.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// The collector gives memory back a second or more after it became free. Never changes.
    late: bool,
    /// The first measurement, bytes.
    first: Option<u64>,
    /// The last two measurements, the older one first: time in nanoseconds, size in bytes.
    marks: [(u64, u64); 2],
    /// The committed heap at the last look, bytes.
    committed: u64,
    /// Until when memory of a shrunk heap may still be resident, nanoseconds.
    returning: u64,
    /// The last look at the whole process: time in nanoseconds, use in bytes.
    used: (u64, u64),
    /// How fast the use of the process grew before that look, bytes per second.
    pace: u64,
    /// The fastest recent growth, bytes per second, and until when it counts, nanoseconds.
    fastest: (u64, u64),
}

impl Growth {
    /// Knows nothing yet of the machine with these levers.
    pub(super) fn of(levers: &Levers) -> Growth {
        Growth {
            late: levers.sized_by == SizedBy::SoftMax && !levers.returns_on_change,
            ..Growth::default()
        }
    }

    /// Takes in one look: native memory, committed heap, and use of the process, bytes.
    pub(super) fn look(&mut self, now_ns: u64, native: u64, committed: u64, uses: u64) {
        let passed_ms = now_ns.saturating_sub(self.used.0) / 1_000_000;
        if passed_ms >= 20 {
            self.pace = uses.saturating_sub(self.used.1).saturating_mul(1000) / passed_ms;
            self.used = (now_ns, uses);
        }
        if committed < self.committed {
            // Until then memory that the heap gave up may be mistaken for native.
            self.returning = now_ns.saturating_add(RETURNING);
        }
        self.committed = committed;
        if self.first.is_none() || now_ns < self.returning {
            self.first.get_or_insert(native);
            self.marks = [(now_ns, native); 2];
        }
        if now_ns > self.fastest.1 {
            self.fastest = (0, now_ns);
        }
        if now_ns.saturating_sub(self.marks[1].0) < SPAN {
            return;
        }
        let (then, before) = self.marks[0];
        let passed_ms = now_ns.saturating_sub(then) / 1_000_000;
        let rate = native.saturating_sub(before).saturating_mul(1000) / passed_ms.max(1);
        if rate > self.fastest.0 {
            self.fastest = (rate, now_ns.saturating_add(GOES_ON));
        }
        self.marks = [self.marks[1], (now_ns, native)];
    }

    /// The bytes to keep free below `limit`. Growth that has happened needs no reserve any more,
    /// but more may follow, and present growth goes on.
    pub(super) fn spare(&self, limit: u64) -> u64 {
        self.left_of(surprise(Bytes(limit)).0, limit)
    }

    /// The same as far as the heap can do without it, if the collector gives memory back late; 0 with other
    /// collectors. It is more for a program that may use most of a computer or group with this capacity.
    /// Programs that share one have too little for that.
    pub(super) fn ample(&self, limit: u64, capacity: u64) -> u64 {
        if !self.late {
            return 0;
        }
        let large = self.left_of(late_surprise(Bytes(capacity)).0, limit);
        // Half of the memory that the limit leaves to others is taken to be free. So the rest of the
        // limit never becomes smaller when the limit rises.
        let beside = capacity.saturating_sub(limit) / 2;
        self.spare(limit).max(large.saturating_sub(beside))
    }

    /// The part of a `surprise` that is still to be kept free, bytes.
    fn left_of(&self, surprise: u64, limit: u64) -> u64 {
        let first = self.first.unwrap_or(0);
        let grown = self.marks[1].1.saturating_sub(first);
        let left = surprise.saturating_sub(grown);
        let goes_on = self.fastest.0.saturating_mul(REACTION_MS) / 1000;
        left.max(limit / 16).max(goes_on.min(limit / 2))
    }

    /// The part of [`Growth::spare`] that must remain until a collection is under way, bytes. With
    /// less free memory a program is treated as over its limit.
    pub(super) fn kept(&self, limit: u64) -> u64 {
        let fills = self.pace.saturating_mul(ASKING_MS) / 1000;
        fills.max(limit / 16).min(self.spare(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;
    const LIMIT: u64 = 240 * MIB;
    const HEAP: u64 = 100 * MIB;
    const LOOK: u64 = 50_000_000;

    fn grown(megabytes_each: u64, looks: u64) -> Growth {
        let mut growth = Growth::default();
        for look in 0..looks {
            growth.look(look * LOOK, (40 + look * megabytes_each) * MIB, HEAP, 0);
        }
        growth
    }

    #[test]
    fn a_surprise_that_has_come_is_none_any_more() {
        assert_eq!(grown(0, 20).spare(LIMIT), LIMIT / 4);
        let mut growth = grown(0, 20);
        growth.look(100 * LOOK, 80 * MIB, HEAP, 0);
        // The growth is long over.
        growth.look(200 * LOOK, 80 * MIB, HEAP, 0);
        assert_eq!(growth.spare(LIMIT), LIMIT / 4 - 40 * MIB);
    }

    #[test]
    fn what_is_given_back_too_late_is_kept_free_in_advance() {
        let late = Growth {
            late: true,
            ..Growth::default()
        };
        assert_eq!(late.spare(LIMIT), 60 * MIB);
        assert_eq!(late.ample(LIMIT, LIMIT), 150 * MIB);
        assert_eq!(Growth::default().ample(LIMIT, LIMIT), 0);
        assert_eq!(late.ample(2048 * MIB, 2048 * MIB), 160 * MIB);
    }

    #[test]
    fn of_memory_that_others_share_no_more_is_kept_free() {
        let growth = Growth {
            late: true,
            ..Growth::default()
        };
        assert_eq!(growth.ample(LIMIT, LIMIT + 40 * MIB), 140 * MIB);
        for capacity in [3, 5, 100] {
            assert_eq!(growth.ample(LIMIT, capacity * LIMIT), growth.spare(LIMIT));
        }
    }

    #[test]
    fn a_higher_limit_leaves_no_less_to_the_heap() {
        for capacity in [256, 512, 1024] {
            let growth = Growth {
                late: true,
                ..grown(8, 10)
            };
            let left = |limit: u64| limit * MIB - growth.ample(limit * MIB, capacity * MIB);
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
        let before = growth.ample(LIMIT, LIMIT);
        growth.look(100 * LOOK, 80 * MIB, HEAP, 0);
        growth.look(200 * LOOK, 80 * MIB, HEAP, 0);
        assert_eq!(growth.ample(LIMIT, LIMIT), before - 40 * MIB);
    }

    #[test]
    fn a_heap_that_became_smaller_is_no_native_memory() {
        let mut growth = grown(0, 20);
        // Memory that the heap gives up stays resident for a while.
        growth.look(21 * LOOK, 90 * MIB, HEAP / 2, 0);
        growth.look(25 * LOOK, 80 * MIB, HEAP / 2, 0);
        growth.look(29 * LOOK, 40 * MIB, HEAP / 2, 0);
        growth.look(40 * LOOK, 40 * MIB, HEAP / 2, 0);
        assert_eq!(growth.spare(LIMIT), LIMIT / 4);
    }

    #[test]
    fn what_fills_fast_is_collected_early() {
        let mut growth = grown(0, 20);
        assert_eq!(growth.kept(LIMIT), LIMIT / 16);
        growth.look(20 * LOOK, 40 * MIB, HEAP, 100 * MIB);
        // 300 MB/s.
        growth.look(21 * LOOK, 40 * MIB, HEAP, 115 * MIB);
        assert_eq!(growth.kept(LIMIT), 45 * MIB);
    }

    #[test]
    fn room_is_kept_for_what_grows_until_it_stands() {
        // 160 MB/s.
        let mut growth = grown(8, 10);
        let spare = growth.spare(LIMIT);
        assert!((75 * MIB..=85 * MIB).contains(&spare), "{}", spare / MIB);
        for look in 10..80 {
            growth.look(look * LOOK, 120 * MIB, HEAP, 0);
        }
        assert_eq!(growth.spare(LIMIT), LIMIT / 16);
    }
}
