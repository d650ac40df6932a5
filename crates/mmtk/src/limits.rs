//! A heap's limit from one collection to the next. Pure: no clock, no system call, no type of MMTk.

use plimsoll_kernel::stalls::Stalled;
use plimsoll_policy::sizing::{Ended, Kind, Sizing};
use plimsoll_unit::{Bytes, Nanos};

/// Least bytes that a heap may allocate between two collections, and the part of what is reserved
/// (one in `LEAST_PART`) where that is more.
const LEAST: Bytes = Bytes::mib(1);
const LEAST_PART: u64 = 16;
/// The limit before the first collection, and the least growth by the classic rule, where the
/// policy knows nothing yet.
const USUAL: Bytes = Bytes::mib(32);
/// This many collections in a row that reclaimed nothing, between which nothing could be allocated,
/// show that a larger limit does not help. MMTk then runs its emergency collection.
const MOST_STUCK: u32 = 8;
/// Allocation below this between two collections counts as none: a page of every kind of
/// side metadata may be added without any progress of the program.
const PROGRESS: Bytes = Bytes(64 << 10);

/// The state of a heap at the end of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Time of its end since the heap's start; never goes back.
    pub(crate) now: Nanos,
    /// Time that the program was stopped for it.
    pub(crate) took: Nanos,
    /// Whether the whole heap was collected.
    pub(crate) full: bool,
    /// In use when it began.
    pub(crate) before: Bytes,
    /// In use at its end.
    pub(crate) used: Bytes,
    /// Reserved at its end: what is in use and what a copying collection needs.
    pub(crate) reserved: Bytes,
    /// Bytes for which threads wait: their requests made the collection necessary.
    pub(crate) pending: Bytes,
    /// Bytes that must be free for the plan to work well: twice its smallest nursery, for one.
    pub(crate) headroom: Bytes,
    /// The program's stalls since the last collection, also outside of collections: threads that
    /// allocate are the first to touch the pages that a heap has grown by.
    pub(crate) stalls: Stalled,
}

/// How large a heap may be until its next collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// By the policy.
    pub(crate) size: Bytes,
    /// The size that the heap needs to make any progress. It gets that even above the policy's size
    /// and above a broker's limit, because neither may stop a program.
    pub(crate) floor: Bytes,
    /// The configured maximum. Nothing exceeds it: a heap that needs more is out of memory.
    pub(crate) max: Bytes,
}

impl Limits {
    /// The limit under a bound that another thread may have moved since.
    pub(crate) fn under(&self, bound: Bytes) -> Bytes {
        self.size.min(bound).max(self.floor).min(self.max)
    }
}

/// Applies a policy to one heap.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<S> {
    sizing: S,
    /// Smallest and largest limit; set once.
    min: Bytes,
    max: Bytes,
    /// Allocated since the start.
    allocated: Bytes,
    /// In use at the end of the last collection.
    used: Bytes,
    /// The heap's need by the last collection of the whole heap.
    needs: Bytes,
    /// How large the heap would be until the next collection of the whole heap by the classic rule.
    usual: Bytes,
    /// Recent time of a collection.
    cost: Nanos,
    /// Collections in a row without progress.
    stuck: u32,
}

impl<S: Sizing> Ledger<S> {
    /// A heap of `min` to `max`.
    pub(crate) fn new(min: Bytes, max: Bytes) -> Ledger<S> {
        let mut sizing = S::default();
        sizing.bounded(max);
        Ledger {
            sizing,
            min: min.min(max),
            max,
            allocated: Bytes::ZERO,
            used: Bytes::ZERO,
            needs: Bytes::ZERO,
            usual: USUAL,
            cost: Nanos::ZERO,
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

    /// A collection ended. `bound` is a broker's limit for the heap; `Bytes::MAX` without one.
    ///
    /// After a nursery collection nobody knows how much of the rest lives. So the limit may then be less
    /// than what is in use: MMTk sees that, and collects the whole heap next. A floor above what is in
    /// use would let garbage grow to the maximum.
    pub(crate) fn ended(&mut self, seen: &Seen, bound: Bytes) -> Limits {
        let allocated = seen.before - self.used;
        self.allocated += allocated;
        self.used = seen.used;
        let helped = seen.before - seen.used;
        self.stuck = if allocated < PROGRESS && helped < PROGRESS && seen.pending > Bytes::ZERO {
            self.stuck.saturating_add(1)
        } else {
            0
        };
        self.cost = match self.cost {
            Nanos::ZERO => seen.took,
            cost => cost / 2 + seen.took / 2,
        };
        if seen.full {
            let least = (seen.reserved / LEAST_PART).max(LEAST).max(seen.headroom);
            self.needs = seen.reserved + least;
            // MMTk has no rule of its own for this trigger; the classic one doubles the heap.
            self.usual = seen.reserved + seen.reserved.max(USUAL);
        }
        self.tell(seen, bound);
        Limits {
            size: self.sizing.size(),
            floor: (self.needs + seen.pending).max(self.min),
            max: self.max,
        }
    }

    /// Tells the policy. Where stalls cost the heap anything, memory was short at the size that it really
    /// had: under a lower bound the policy loses what is above it, too.
    fn tell(&mut self, seen: &Seen, bound: Bytes) {
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
            growth: self.usual - seen.reserved,
            stalls: seen.stalls.count,
            stalled: seen.stalls.time,
        }
    }

    /// Allocated since the start, as far as collections told.
    pub(crate) fn allocated(&self) -> Bytes {
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

    fn seen(before: u64, reserved: Bytes) -> Seen {
        Seen {
            full: true,
            before: Bytes::mib(before),
            used: Bytes::mib(reserved.0),
            reserved: Bytes::mib(reserved.0),
            took: Nanos::millis(1),
            ..Seen::default()
        }
    }

    #[test]
    fn a_heap_is_as_large_as_its_maximum_until_a_stall() {
        let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(400));
        assert_eq!(ledger.first().under(Bytes::MAX), Bytes::mib(400));
        let calm = ledger.ended(&seen(400, Bytes(100)), Bytes::MAX);
        assert_eq!(calm.under(Bytes::MAX), Bytes::mib(400));
        let stalls = Seen {
            stalls: stalls(3),
            ..seen(400, Bytes(100))
        };
        let short = ledger.ended(&stalls, Bytes::MAX);
        assert_eq!(short.under(Bytes::MAX), Bytes::mib(250));
    }

    #[test]
    fn the_smaller_of_a_brokers_limit_and_the_policys_holds() {
        let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(400));
        let calm = ledger.ended(&seen(400, Bytes(100)), Bytes::mib(200));
        assert_eq!(calm.under(Bytes::mib(200)), Bytes::mib(200));
        assert_eq!(
            calm.under(Bytes::mib(300)),
            Bytes::mib(300),
            "a rise counts at once"
        );
        let stalls = Seen {
            stalls: stalls(1),
            ..seen(200, Bytes(100))
        };
        let short = ledger.ended(&stalls, Bytes::mib(200));
        assert_eq!(
            short.under(Bytes::MAX),
            Bytes::mib(150),
            "half of what was free"
        );
    }

    /// A broker's limit may be low for a moment only.
    #[test]
    fn stalls_that_count_as_none_leave_the_policy_what_is_above_a_brokers_limit() {
        let short = |time| {
            let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(400));
            let seen = Seen {
                now: Nanos::seconds(1),
                stalls: Stalled { count: 1, time },
                ..seen(200, Bytes(100))
            };
            ledger.ended(&seen, Bytes::mib(200)).under(Bytes::MAX).0 / MIB
        };
        assert_eq!(
            (short(Nanos(20_000)), short(Nanos::millis(900))),
            (400, 150)
        );
    }

    #[test]
    fn a_brokers_limit_below_what_lives_leaves_room_to_go_on() {
        let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(400));
        let limits = ledger.ended(&seen(200, Bytes(160)), Bytes::mib(20));
        assert_eq!(limits.under(Bytes::mib(20)), Bytes::mib(170));
    }

    #[test]
    fn the_maximum_is_exceeded_by_nothing() {
        let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(100));
        let large = Seen {
            pending: Bytes::mib(200),
            ..seen(90, Bytes(80))
        };
        assert_eq!(
            ledger.ended(&large, Bytes::MAX).under(Bytes::MAX),
            Bytes::mib(100)
        );
    }

    #[test]
    fn a_waiting_request_is_let_in() {
        let mut ledger = Ledger::<AfterStalls>::new(Bytes::mib(8), Bytes::mib(400));
        let large = Seen {
            pending: Bytes::mib(100),
            ..seen(10, Bytes(5))
        };
        let limit = ledger.ended(&large, Bytes::MAX).under(Bytes::MAX);
        assert!(limit >= Bytes::mib(105), "{limit}");
    }

    /// The rest of the heap is full of garbage, and nobody knows how much.
    #[test]
    fn after_a_nursery_collection_the_limit_may_be_less_than_is_in_use() {
        let nursery = |before, reserved| Seen {
            full: false,
            ..seen(before, reserved)
        };
        let mut ledger = Ledger::<IslaVista>::new(Bytes::mib(8), Bytes::mib(400));
        ledger.ended(&seen(200, Bytes(60)), Bytes::MAX);
        let limit = |limits: Limits| limits.under(Bytes::mib(90)).0 / MIB;
        assert_eq!(
            limit(ledger.ended(&nursery(90, Bytes(70)), Bytes::mib(90))),
            90
        );
        assert_eq!(
            limit(ledger.ended(&nursery(90, Bytes(120)), Bytes::mib(90))),
            90
        );
        assert_eq!(
            limit(ledger.ended(&seen(120, Bytes(100)), Bytes::mib(90))),
            106
        );
        let mut ledger = Ledger::<AfterStalls>::new(Bytes::mib(8), Bytes::mib(400));
        assert_eq!(limit(ledger.ended(&nursery(32, Bytes(30)), Bytes::MAX)), 32);
        ledger.ended(&seen(32, Bytes(20)), Bytes::MAX);
        for used in [30, 40, 50] {
            let limits = ledger.ended(&nursery(52, Bytes(used)), Bytes::MAX);
            assert_eq!(limit(limits), 52, "what lived and as much again");
        }
    }

    #[test]
    fn collections_without_any_progress_are_noticed() {
        let mut ledger = Ledger::<All>::new(Bytes::mib(8), Bytes::mib(400));
        let stuck = Seen {
            pending: Bytes::mib(1),
            ..seen(50, Bytes(50))
        };
        ledger.ended(&stuck, Bytes::MAX);
        let rounds = (0..20).take_while(|_| {
            ledger.ended(&stuck, Bytes::MAX);
            !ledger.is_stuck()
        });
        assert_eq!(rounds.count(), MOST_STUCK as usize - 1);
        ledger.ended(&seen(60, Bytes(50)), Bytes::MAX);
        assert!(!ledger.is_stuck());
    }

    fn holds<S: Sizing>(all: &[(Seen, Bytes)], max: Bytes) -> Result<(), TestCaseError> {
        let mut ledger = Ledger::<S>::new(Bytes::mib(8), max);
        for (seen, bound) in all {
            let limits = ledger.ended(seen, *bound);
            let limit = limits.under(*bound);
            prop_assert!(limit <= max);
            let needs = if seen.full {
                seen.reserved + seen.pending
            } else {
                seen.pending - Bytes(1)
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
            let max = Bytes(max);
            let all: Vec<_> = all.into_iter().map(|(n, big, bound)| {
                let scale = if big { 1 << 31 } else { 1 };
                let seen = Seen {
                    full: n[3] % 5 > 1,
                    before: Bytes(u64::from(n[0]) * scale),
                    used: Bytes(u64::from(n[1]) * scale / 2),
                    reserved: Bytes(u64::from(n[1]) * scale),
                    pending: Bytes(u64::from(n[2]) * scale),
                    stalls: stalls(u64::from(n[3] % 3)),
                    ..Seen::default()
                };
                (seen, Bytes(bound))
            }).collect();
            holds::<IslaVista>(&all, max)?;
            holds::<AfterStalls>(&all, max)?;
            holds::<SquareRoot>(&all, max)?;
            holds::<All>(&all, max)?;
        }
    }
}
