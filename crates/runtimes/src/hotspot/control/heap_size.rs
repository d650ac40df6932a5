//! How large the resident heap may be. A policy decides from what the counters show.
//!
//! The policy does not decide which size a lever produces ([`super::aim`]), which part of that is
//! resident (the learned *bias*), or when a collection is asked for.

use super::Seen;
use crate::hotspot::flags::heap_alone;
use plimsoll_policy::sizing::{Ended, HotSpot, Sizing};

/// A heap that takes the last memory slowly may take twice as much when the process is four times this
/// old, and again twice as much at each four times that age, nanoseconds.
const DOUBLING: u64 = 10_000_000_000;
/// How many times what lives a heap has before more is kept free than the surprise of any program.
const ENOUGH: u64 = 2;
/// It leaves no more than this for later, bytes.
const MOST_LEFT: u64 = 1 << 30;

/// A policy, and the last observations that it was given.
#[derive(Debug, Default)]
pub(super) struct HeapSize {
    /// The policy.
    sizing: HotSpot,
    /// Bytes that the program allocated so far, as collections show.
    allocated: u64,
    /// Nanoseconds in pauses and major faults since the start, as of the last collection that told
    /// the live bytes.
    last: Option<(u64, u64)>,
    /// The live bytes, as far as they are known.
    live: u64,
}

impl HeapSize {
    /// Takes in one moment. `live`: the live bytes. `told`: a collection that tells them ended since
    /// the last call.
    pub(super) fn look(&mut self, seen: &Seen, live: u64, told: bool) {
        self.live = live;
        self.sizing.bounded(self.bound(seen));
        let now = (seen.heap.collection_ns(), seen.major_faults);
        let last = *self.last.get_or_insert(now);
        if !told {
            return;
        }
        self.last = Some(now);
        let took = now.0.saturating_sub(last.0);
        self.sizing.ended(&Ended {
            now: seen.now_ns,
            took,
            cost: took,
            live,
            allocated: self.allocated,
            // The machine takes all that its maximum allows.
            growth: u64::MAX,
            // A major fault waits for memory that the kernel had taken.
            stalls: now.1.saturating_sub(last.1),
            ..Ended::default()
        });
    }

    /// Notes that the program allocated `bytes` more.
    pub(super) fn allocated(&mut self, bytes: f64) {
        self.allocated = self.allocated.saturating_add(bytes as u64);
    }

    /// The bytes that the resident heap may take at the limit of `seen`, which may be the present
    /// moment or a hypothetical one.
    pub(super) fn at(&self, seen: &Seen) -> u64 {
        let mut sizing = self.sizing.clone();
        sizing.bounded(self.bound(seen));
        sizing.size()
    }

    /// The bytes that the process is meant to use with a heap of that size. Where nothing is kept free
    /// that is the limit: the use comes near to it, and never above.
    pub(super) fn intended(&self, seen: &Seen) -> u64 {
        match seen.ample {
            0 => seen.limit,
            _ => seen.native.saturating_add(self.at(seen)).min(seen.limit),
        }
    }

    /// The upper bound of the resident heap, bytes.
    fn bound(&self, seen: &Seen) -> u64 {
        let margin = (seen.limit / 128).min(12 << 20);
        let beside = seen.limit.saturating_sub(seen.native);
        let room = beside.saturating_sub(margin.max(seen.spare));
        if seen.ample == 0 {
            return room;
        }
        // Up to `enough`, collections are cheap. Memory above it is given up first.
        let enough = self.live.saturating_mul(ENOUGH);
        let room = room.min(beside.saturating_sub(seen.ample).max(enough));
        room.min(self.so_far(seen))
    }

    /// How far a heap grows at this time into the last memory of a small machine or group, where an
    /// excess ends a program. A larger heap costs at once, for the pages that it touches and the
    /// collections that make it larger, and saves only over time: twice the room halves what collecting
    /// takes. A program is expected to go on for as long as it has run. So the size that is worth most
    /// grows with the square root of that time. Bytes.
    fn so_far(&self, seen: &Seen) -> u64 {
        let alone = heap_alone(seen.capacity);
        let first = alone
            .saturating_add(alone / 8)
            .max(self.live.saturating_mul(2))
            .max(seen.capacity.saturating_sub(MOST_LEFT));
        let doublings = (seen.age_ns / DOUBLING).max(1).ilog2() / 2;
        first.saturating_mul(1 << doublings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_may_take_what_the_limit_leaves_beside_native_memory_and_what_is_kept_free() {
        let seen = |limit, spare| Seen {
            limit: limit * MIB,
            native: 100 * MIB,
            spare: spare * MIB,
            ample: spare * MIB,
            capacity: 8192 * MIB,
            ..Seen::default()
        };
        let mut size = HeapSize::default();
        size.look(&seen(1024, 0), 10 * MIB, true);
        assert_eq!(size.at(&seen(1024, 0)), 916 * MIB, "a 128th is left");
        assert_eq!(size.at(&seen(1024, 50)), 874 * MIB, "it is in what is kept");
        assert_eq!(size.at(&seen(4096, 0)), (4096 - 100 - 12) * MIB);
        assert_eq!(size.at(&seen(64, 0)), 0);
        assert_eq!(
            size.at(&seen(1024, 0)),
            916 * MIB,
            "thoughts change nothing"
        );
    }

    /// Beside 50 MiB of native memory, in a machine or group of this many MiB, of which 160 are kept
    /// free, with 100 MiB alive.
    fn on_a_cliff(capacity: u64, limit: u64, second: u64) -> (HeapSize, Seen) {
        let seen = Seen {
            age_ns: second * 1_000_000_000,
            limit: limit * MIB,
            native: 50 * MIB,
            spare: 160 * MIB,
            ample: 160 * MIB,
            capacity: capacity * MIB,
            ..Seen::default()
        };
        let mut size = HeapSize::default();
        size.look(&seen, 100 * MIB, true);
        (size, seen)
    }

    #[test]
    fn the_last_memory_of_a_small_group_is_taken_slowly() {
        let at = |second| {
            let (size, seen) = on_a_cliff(1000, 1000, second);
            assert_eq!(size.intended(&seen), size.at(&seen) + 50 * MIB);
            size.at(&seen) / MIB
        };
        // An eighth more than the quarter that it would take alone.
        assert_eq!([at(1), at(39)], [281; 2]);
        assert_eq!([at(40), at(159)], [562; 2]);
        assert_eq!([at(160), at(1_000_000)], [790; 2], "all but the reserve");
    }

    #[test]
    fn what_lives_is_no_reason_to_wait() {
        let (mut size, seen) = on_a_cliff(1000, 1000, 1);
        size.look(&seen, 300 * MIB, true);
        assert_eq!(size.at(&seen) / MIB, 600, "twice what lives");
    }

    #[test]
    fn where_memory_is_plenty_a_heap_takes_all_at_once() {
        // The group has little more than the program may use, half of it, and 24 GiB.
        for (capacity, limit, most) in [(3000, 2500, 1976), (4000, 2000, 1790), (24576, 600, 390)] {
            let (size, seen) = on_a_cliff(capacity, limit, 1);
            assert_eq!(size.at(&seen) / MIB, most, "{capacity}");
        }
    }

    #[test]
    fn where_nothing_is_kept_free_beside_the_limit_it_is_the_limit() {
        let (size, seen) = on_a_cliff(1000, 1000, 1);
        let by_stalls = Seen { ample: 0, ..seen };
        assert_eq!(size.intended(&by_stalls), 1000 * MIB);
        assert_eq!(size.at(&by_stalls), 790 * MIB, "only the reserve is not");
    }

    #[test]
    fn more_is_kept_free_as_far_as_enough_is_left_for_what_lives() {
        let seen = Seen {
            limit: 240 * MIB,
            native: 40 * MIB,
            spare: 60 * MIB,
            ample: 120 * MIB,
            capacity: 250 * MIB,
            age_ns: 100 * DOUBLING,
            ..Seen::default()
        };
        let at = |live| {
            let mut size = HeapSize::default();
            size.look(&seen, live * MIB, true);
            size.at(&seen) / MIB
        };
        assert_eq!([at(20), at(45), at(100)], [80, 90, 140]);
    }
}
