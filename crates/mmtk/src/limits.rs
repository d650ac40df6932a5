//! A heap's limit from one collection to the next. Pure: no clock, no system call, no type of MMTk.

use plimsoll_kernel::stalls::Stalled;
use plimsoll_policy::sizing::{Ended, Kind, Sizing};

/// Least bytes that a heap may allocate between two collections, and the part of what is reserved
/// (one in `LEAST_PART`) where that is more.
const LEAST: u64 = 1 << 20;
const LEAST_PART: u64 = 16;
/// The limit before the first collection, and the least growth by the classic rule, bytes, where the
/// policy knows nothing yet.
const USUAL: u64 = 32 << 20;
/// This many collections in a row that reclaimed nothing, between which nothing could be allocated,
/// show that a larger limit does not help. MMTk then runs its emergency collection.
const MOST_STUCK: u32 = 8;
/// Allocation below this (bytes) between two collections counts as none: a page of every kind of
/// side metadata may be added without any progress of the program.
const PROGRESS: u64 = 64 << 10;

/// The state of a heap at the end of a collection. Bytes and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Time of its end since the heap's start, ns; never goes back.
    pub(crate) now: u64,
    /// Time that the program was stopped for it, ns.
    pub(crate) took: u64,
    /// Whether the whole heap was collected.
    pub(crate) full: bool,
    /// Bytes in use when it began.
    pub(crate) before: u64,
    /// Bytes in use at its end.
    pub(crate) used: u64,
    /// Bytes reserved at its end: what is in use and what a copying collection needs.
    pub(crate) reserved: u64,
    /// Bytes for which threads wait: their requests made the collection necessary.
    pub(crate) pending: u64,
    /// Bytes that must be free for the plan to work well: twice its smallest nursery, for one.
    pub(crate) headroom: u64,
    /// The program's stalls since the last collection, also outside of collections: threads that
    /// allocate are the first to touch the pages that a heap has grown by.
    pub(crate) stalls: Stalled,
}

/// How large a heap may be until its next collection, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// By the policy.
    pub(crate) size: u64,
    /// The size that the heap needs to make any progress. It gets that even above the policy's size
    /// and above a broker's limit, because neither may stop a program.
    pub(crate) floor: u64,
    /// The configured maximum. Nothing exceeds it: a heap that needs more is out of memory.
    pub(crate) max: u64,
}

impl Limits {
    /// The limit under a bound that another thread may have moved since, bytes.
    pub(crate) fn under(&self, bound: u64) -> u64 {
        self.size.min(bound).max(self.floor).min(self.max)
    }
}

/// Applies a policy to one heap.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<S> {
    sizing: S,
    /// Smallest and largest limit, bytes; set once.
    min: u64,
    max: u64,
    /// Bytes allocated since the start.
    allocated: u64,
    /// Bytes in use at the end of the last collection.
    used: u64,
    /// The heap's need by the last collection of the whole heap, bytes.
    needs: u64,
    /// How large the heap would be until the next collection of the whole heap by the classic rule,
    /// bytes.
    usual: u64,
    /// Recent time of a collection, ns.
    cost: u64,
    /// Collections in a row without progress.
    stuck: u32,
}

impl<S: Sizing> Ledger<S> {
    /// A heap of `min` to `max` bytes.
    pub(crate) fn new(min: u64, max: u64) -> Ledger<S> {
        let mut sizing = S::default();
        sizing.bounded(max);
        Ledger {
            sizing,
            min: min.min(max),
            max,
            allocated: 0,
            used: 0,
            needs: 0,
            usual: USUAL,
            cost: 0,
            stuck: 0,
        }
    }

    /// The limits before the first collection.
    pub(crate) fn first(&self) -> Limits {
        Limits {
            size: self.sizing.size().max(USUAL),
            floor: self.min,
            max: self.max,
        }
    }

    /// A collection ended. `bound` is a broker's limit for the heap, bytes; `u64::MAX` without one.
    ///
    /// After a nursery collection nobody knows how much of the rest lives. So the limit may then be less
    /// than what is in use: MMTk sees that, and collects the whole heap next. A floor above what is in
    /// use would let garbage grow to the maximum.
    pub(crate) fn ended(&mut self, seen: &Seen, bound: u64) -> Limits {
        let allocated = seen.before.saturating_sub(self.used);
        self.allocated = self.allocated.saturating_add(allocated);
        self.used = seen.used;
        let helped = seen.before.saturating_sub(seen.used);
        self.stuck = if allocated < PROGRESS && helped < PROGRESS && seen.pending > 0 {
            self.stuck.saturating_add(1)
        } else {
            0
        };
        self.cost = match self.cost {
            0 => seen.took,
            cost => cost / 2 + seen.took / 2,
        };
        if seen.full {
            let least = (seen.reserved / LEAST_PART).max(LEAST).max(seen.headroom);
            self.needs = seen.reserved.saturating_add(least);
            // MMTk has no rule of its own for this trigger; the classic one doubles the heap.
            self.usual = seen.reserved.saturating_add(seen.reserved.max(USUAL));
        }
        self.tell(seen, bound);
        Limits {
            size: self.sizing.size(),
            floor: self.needs.saturating_add(seen.pending).max(self.min),
            max: self.max,
        }
    }

    /// Tells the policy. Where stalls cost the heap anything, memory was short at the size that it really
    /// had: under a lower bound the policy loses what is above it, too.
    fn tell(&mut self, seen: &Seen, bound: u64) {
        let ended = self.report(seen);
        let before = self.sizing.clone();
        self.sizing.ended(&ended);
        let had = bound.max(seen.before).min(self.max);
        if seen.stalls.any() && had < before.size() && self.sizing.size() < before.size() {
            self.sizing = before;
            self.sizing.bounded(had);
            self.sizing.ended(&ended);
        }
        self.sizing.bounded(self.max);
    }

    /// A collection, as the policy knows it.
    fn report(&self, seen: &Seen) -> Ended {
        Ended {
            now: seen.now,
            took: seen.took,
            cost: self.cost,
            kind: if seen.full { Kind::Full } else { Kind::Nursery },
            live: seen.reserved,
            allocated: self.allocated,
            growth: self.usual.saturating_sub(seen.reserved),
            stalls: seen.stalls.count,
            stalled: seen.stalls.time.0,
        }
    }

    /// Bytes allocated since the start, as far as collections told.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Whether even a larger limit cannot let the waiting requests in.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck >= MOST_STUCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_policy::sizing::{AfterStalls, All, IslaVista, SquareRoot};
    use proptest::prelude::*;

    use plimsoll_unit::{MIB, Nanos};

    /// Stalls that took all of a collection's time.
    fn stalls(count: u64) -> Stalled {
        Stalled {
            count,
            time: Nanos(count * 1_000_000),
        }
    }

    fn seen(before: u64, reserved: u64) -> Seen {
        Seen {
            full: true,
            before: before * MIB,
            used: reserved * MIB,
            reserved: reserved * MIB,
            took: 1_000_000,
            ..Seen::default()
        }
    }

    #[test]
    fn a_heap_is_as_large_as_its_maximum_until_a_stall() {
        let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 400 * MIB);
        assert_eq!(ledger.first().under(u64::MAX), 400 * MIB);
        let calm = ledger.ended(&seen(400, 100), u64::MAX);
        assert_eq!(calm.under(u64::MAX), 400 * MIB);
        let stalls = Seen {
            stalls: stalls(3),
            ..seen(400, 100)
        };
        let short = ledger.ended(&stalls, u64::MAX);
        assert_eq!(short.under(u64::MAX), 250 * MIB);
    }

    #[test]
    fn the_smaller_of_a_brokers_limit_and_the_policys_holds() {
        let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 400 * MIB);
        let calm = ledger.ended(&seen(400, 100), 200 * MIB);
        assert_eq!(calm.under(200 * MIB), 200 * MIB);
        assert_eq!(calm.under(300 * MIB), 300 * MIB, "a rise counts at once");
        let stalls = Seen {
            stalls: stalls(1),
            ..seen(200, 100)
        };
        let short = ledger.ended(&stalls, 200 * MIB);
        assert_eq!(short.under(u64::MAX), 150 * MIB, "half of what was free");
    }

    /// A broker's limit may be low for a moment only.
    #[test]
    fn stalls_that_count_as_none_leave_the_policy_what_is_above_a_brokers_limit() {
        let short = |ns| {
            let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 400 * MIB);
            let seen = Seen {
                now: 1_000_000_000,
                stalls: Stalled {
                    count: 1,
                    time: Nanos(ns),
                },
                ..seen(200, 100)
            };
            ledger.ended(&seen, 200 * MIB).under(u64::MAX) / MIB
        };
        assert_eq!((short(20_000), short(900_000_000)), (400, 150));
    }

    #[test]
    fn a_brokers_limit_below_what_lives_leaves_room_to_go_on() {
        let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 400 * MIB);
        let limits = ledger.ended(&seen(200, 160), 20 * MIB);
        assert_eq!(limits.under(20 * MIB), 170 * MIB);
    }

    #[test]
    fn the_maximum_is_exceeded_by_nothing() {
        let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 100 * MIB);
        let large = Seen {
            pending: 200 * MIB,
            ..seen(90, 80)
        };
        assert_eq!(ledger.ended(&large, u64::MAX).under(u64::MAX), 100 * MIB);
    }

    #[test]
    fn a_waiting_request_is_let_in() {
        let mut ledger = Ledger::<AfterStalls>::new(8 * MIB, 400 * MIB);
        let large = Seen {
            pending: 100 * MIB,
            ..seen(10, 5)
        };
        let limit = ledger.ended(&large, u64::MAX).under(u64::MAX);
        assert!(limit >= 105 * MIB, "{limit}");
    }

    /// The rest of the heap is full of garbage, and nobody knows how much.
    #[test]
    fn after_a_nursery_collection_the_limit_may_be_less_than_is_in_use() {
        let nursery = |before, reserved| Seen {
            full: false,
            ..seen(before, reserved)
        };
        let mut ledger = Ledger::<IslaVista>::new(8 * MIB, 400 * MIB);
        ledger.ended(&seen(200, 60), u64::MAX);
        let limit = |limits: Limits| limits.under(90 * MIB) / MIB;
        assert_eq!(limit(ledger.ended(&nursery(90, 70), 90 * MIB)), 90);
        assert_eq!(limit(ledger.ended(&nursery(90, 120), 90 * MIB)), 90);
        assert_eq!(limit(ledger.ended(&seen(120, 100), 90 * MIB)), 106);
        let mut ledger = Ledger::<AfterStalls>::new(8 * MIB, 400 * MIB);
        assert_eq!(limit(ledger.ended(&nursery(32, 30), u64::MAX)), 32);
        ledger.ended(&seen(32, 20), u64::MAX);
        for used in [30, 40, 50] {
            let limits = ledger.ended(&nursery(52, used), u64::MAX);
            assert_eq!(limit(limits), 52, "what lived and as much again");
        }
    }

    #[test]
    fn collections_without_any_progress_are_noticed() {
        let mut ledger = Ledger::<All>::new(8 * MIB, 400 * MIB);
        let stuck = Seen {
            pending: MIB,
            ..seen(50, 50)
        };
        ledger.ended(&stuck, u64::MAX);
        let rounds = (0..20).take_while(|_| {
            ledger.ended(&stuck, u64::MAX);
            !ledger.is_stuck()
        });
        assert_eq!(rounds.count(), MOST_STUCK as usize - 1);
        ledger.ended(&seen(60, 50), u64::MAX);
        assert!(!ledger.is_stuck());
    }

    fn holds<S: Sizing>(all: &[(Seen, u64)], max: u64) -> Result<(), TestCaseError> {
        let mut ledger = Ledger::<S>::new(8 * MIB, max);
        for (seen, bound) in all {
            let limits = ledger.ended(seen, *bound);
            let limit = limits.under(*bound);
            prop_assert!(limit <= max);
            let needs = if seen.full {
                seen.reserved.saturating_add(seen.pending)
            } else {
                seen.pending.saturating_sub(1)
            };
            prop_assert!(limit == max || limit > needs, "{limits:?}");
        }
        Ok(())
    }

    proptest! {
        /// After any collections the limit is at most the maximum, and leaves room for waiting
        /// threads unless it is the maximum.
        #[test]
        fn there_is_room_to_go_on_or_the_heap_is_at_its_maximum(
            all in proptest::collection::vec(
                (any::<[u32; 4]>(), any::<bool>(), any::<u64>()), 1..50),
            max in 1u64..1 << 40,
        ) {
            let all: Vec<_> = all.into_iter().map(|(n, big, bound)| {
                let scale = if big { 1 << 31 } else { 1 };
                let seen = Seen {
                    full: n[3] % 5 > 1,
                    before: u64::from(n[0]) * scale,
                    used: u64::from(n[1]) * scale / 2,
                    reserved: u64::from(n[1]) * scale,
                    pending: u64::from(n[2]) * scale,
                    stalls: stalls(u64::from(n[3] % 3)),
                    ..Seen::default()
                };
                (seen, bound)
            }).collect();
            holds::<IslaVista>(&all, max)?;
            holds::<AfterStalls>(&all, max)?;
            holds::<SquareRoot>(&all, max)?;
            holds::<All>(&all, max)?;
        }
    }
}
