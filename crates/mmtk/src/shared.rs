//! The numbers that the hooks of the trigger, the companion thread and the runtime share.

use crate::limits::Limits;
use plimsoll_kernel::stalls::Tier;
use plimsoll_unit::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// All fields may be read by any thread. A torn view of several fields only makes one poll decide
/// by numbers of two collections.
#[derive(Debug)]
pub(crate) struct Shared {
    /// [`Limits`], bytes; written at the end of a collection, while the program is stopped.
    size: AtomicU64,
    floor: AtomicU64,
    /// The configured maximum; never changes.
    max: Bytes,
    /// The most that the heap may be: by a broker or by [`crate::Control::bound`], bytes;
    /// `u64::MAX` without either. Written by the companion or by the runtime, at any time.
    bound: AtomicU64,
    /// Whether the companion wrote the bound last. Written with it.
    is_followed: AtomicBool,
    /// Whether MMTk can collect yet. Before, a poll that asks for a collection panics (0.33): no bound and no
    /// wish counts. Set once, by [`crate::Control::ready`] or by the first collection.
    ready: AtomicBool,
    /// Whether memory is owed to a broker that is followed. Written by the companion.
    owes: AtomicBool,
    /// Whether a collection is wanted; set by any thread, taken by the poll that starts it.
    wanted: AtomicBool,
    /// Whether a poll was let through since the last pause: [`Shared::take_wanted`].
    passed: AtomicBool,
    /// Whether growing cannot help ([`crate::limits::Ledger::is_stuck`]).
    stuck: AtomicBool,
    /// Whether the plan collects at all; cleared by the first poll of NoGC.
    collects: AtomicBool,
    /// The number of the tier of stalls that is read; 0 for none.
    tier: AtomicU8,
    /// Figures of the collections. Bytes, nanoseconds and counts since the start.
    pub(crate) told: Told,
}

/// Counters and last values, written at the end of collections.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Collections that reclaimed memory, and those of them that were of the whole heap.
    pub(crate) collections: AtomicU64,
    pub(crate) full: AtomicU64,
    /// Time that the program was stopped for them, ns.
    pub(crate) stopped: AtomicU64,
    /// Longest and last stop, ns.
    pub(crate) longest: AtomicU64,
    pub(crate) last: AtomicU64,
    /// Bytes in use and bytes reserved (with what a copying collection needs) at the end of the last
    /// collection of the whole heap; 0 before the first, because others do not tell what lives.
    pub(crate) live: AtomicU64,
    pub(crate) needs: AtomicU64,
    /// Time that the program was stopped for it, ns; 0 where that does not tell what it cost.
    pub(crate) whole: AtomicU64,
    /// Bytes allocated until the last collection.
    pub(crate) allocated: AtomicU64,
    /// Stalls seen, and collections since whose predecessor there were any.
    pub(crate) stalls: AtomicU64,
    pub(crate) stalled: AtomicU64,
    /// Bytes given back to the kernel.
    pub(crate) given_back: AtomicU64,
    /// Most bytes that the heap can have resident: the most reserved so far, less what was given back.
    pub(crate) touched: AtomicU64,
    /// Collections that [`crate::Control::collect`] made happen.
    pub(crate) wanted: AtomicU64,
    /// How often a limit was set after a request waited for it.
    pub(crate) let_in: AtomicU32,
}

impl Shared {
    pub(crate) fn new(first: Limits) -> Shared {
        Shared {
            size: AtomicU64::new(first.size.0),
            floor: AtomicU64::new(first.floor.0),
            max: first.max,
            bound: AtomicU64::new(u64::MAX),
            is_followed: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            passed: AtomicBool::new(true),
            stuck: AtomicBool::new(false),
            collects: AtomicBool::new(true),
            tier: AtomicU8::new(0),
            told: Told::default(),
        }
    }

    pub(crate) fn set(&self, limits: Limits, stuck: bool) {
        self.size.store(limits.size.0, Ordering::Release);
        self.floor.store(limits.floor.0, Ordering::Release);
        self.stuck.store(stuck, Ordering::Release);
    }

    /// The present limit of the heap. A few loads: it is asked for at each poll.
    pub(crate) fn limit(&self) -> Bytes {
        if !self.collects.load(Ordering::Relaxed) {
            return self.max;
        }
        let limits = Limits {
            size: Bytes(self.size.load(Ordering::Acquire)),
            floor: Bytes(self.floor.load(Ordering::Acquire)),
            max: self.max,
        };
        limits.under(self.bound())
    }

    pub(crate) fn max(&self) -> Bytes {
        self.max
    }

    /// The bound, which holds once MMTk can collect.
    pub(crate) fn bound(&self) -> Bytes {
        if self.ready.load(Ordering::Acquire) {
            Bytes(self.bound.load(Ordering::Acquire))
        } else {
            Bytes::MAX
        }
    }

    /// Sets the runtime's own bound.
    pub(crate) fn set_bound(&self, bytes: Bytes) {
        self.is_followed.store(false, Ordering::Release);
        self.bound.store(bytes.0, Ordering::Release);
    }

    /// Sets the bound that follows a broker.
    pub(crate) fn follow_bound(&self, bytes: Bytes) {
        self.bound.store(bytes.0, Ordering::Release);
        self.is_followed.store(true, Ordering::Release);
    }

    /// Whether memory is owed to the broker.
    pub(crate) fn owes(&self, owes: bool) {
        self.owes.store(owes, Ordering::Release);
    }

    pub(crate) fn is_owing(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    /// Lifts a bound that followed a broker: it is followed no longer, and nothing is owed to it.
    pub(crate) fn lift_bound(&self) {
        self.owes(false);
        if self.is_followed.load(Ordering::Acquire) {
            self.set_bound(Bytes::MAX);
        }
    }

    /// The tier of stalls that is read from now on.
    pub(crate) fn read_by(&self, tier: Option<Tier>) {
        let number = tier.map_or(0, |tier| tier as u8);
        self.tier.store(number, Ordering::Relaxed);
    }

    /// The tier of stalls that is read; `None` if there is none that works.
    pub(crate) fn tier(&self) -> Option<Tier> {
        Tier::from_number(self.tier.load(Ordering::Relaxed))
    }

    /// MMTk can collect from now on. Returns whether that is news.
    pub(crate) fn make_ready(&self) -> bool {
        !self.ready.swap(true, Ordering::AcqRel)
    }

    /// Whether the limit may rise so that a waiting request fits. Where it cannot, MMTk must know:
    /// only then does it run an emergency collection and tell the runtime that memory is out.
    pub(crate) fn can_grow(&self) -> bool {
        self.limit() < self.max && !self.stuck.load(Ordering::Acquire)
    }

    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Whether a collection is wanted and may begin now; if so, the wish is taken. After each pause a
    /// poll must get through first: else a thread that waits for memory while others keep wanting
    /// collections would see one after the other fail it, and MMTk would call the memory out. Under NoGC none
    /// may begin, and the wish stays.
    pub(crate) fn take_wanted(&self) -> bool {
        let taken = self.wanted.load(Ordering::Relaxed)
            && self.passed.load(Ordering::Relaxed)
            && self.ready.load(Ordering::Acquire)
            && self.collects.load(Ordering::Relaxed)
            && self.wanted.swap(false, Ordering::AcqRel);
        if taken {
            self.told.wanted.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// A poll was let through.
    pub(crate) fn let_through(&self) {
        if !self.passed.load(Ordering::Relaxed) {
            self.passed.store(true, Ordering::Relaxed);
        }
    }

    /// A pause ends.
    pub(crate) fn paused(&self) {
        self.passed.store(false, Ordering::Relaxed);
    }

    /// NoGC: nothing can be reclaimed, so no limit but the maximum makes sense.
    pub(crate) fn never_collects(&self) {
        self.collects.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starting() -> Shared {
        Shared::new(Limits {
            size: Bytes(50),
            floor: Bytes(10),
            max: Bytes(100),
        })
    }

    fn shared() -> Shared {
        let shared = starting();
        assert!(shared.make_ready());
        shared
    }

    fn limits(size: u64, floor: u64) -> Limits {
        Limits {
            size: Bytes(size),
            floor: Bytes(floor),
            max: Bytes(100),
        }
    }

    #[test]
    fn the_limit_is_the_smaller_one_but_never_less_than_what_lives() {
        let shared = shared();
        assert_eq!((shared.limit(), shared.max()), (Bytes(50), Bytes(100)));
        shared.set_bound(Bytes(30));
        assert_eq!(shared.limit(), Bytes(30));
        shared.set_bound(Bytes(5));
        assert_eq!(shared.limit(), Bytes(10), "the floor");
        shared.set(limits(70, 120), false);
        assert_eq!(shared.limit(), Bytes(100), "nothing exceeds the maximum");
        shared.set_bound(Bytes::MAX);
        shared.set(limits(70, 10), false);
        assert_eq!(shared.limit(), Bytes(70));
        shared.never_collects();
        shared.set_bound(Bytes(5));
        assert_eq!(shared.limit(), Bytes(100), "nothing would help");
        assert!(!shared.can_grow());
    }

    #[test]
    fn a_heap_that_is_stuck_or_at_its_maximum_cannot_grow() {
        let shared = shared();
        assert!(shared.can_grow());
        shared.set(limits(50, 10), true);
        assert!(!shared.can_grow(), "eight collections helped nobody");
        shared.set(limits(50, 10), false);
        assert!(shared.can_grow());
        shared.set(limits(100, 10), false);
        assert!(!shared.can_grow());
    }

    #[test]
    fn a_wanted_collection_begins_once_and_a_poll_passes_in_between() {
        let shared = shared();
        assert!(!shared.take_wanted(), "nobody wants one");
        shared.want();
        shared.want();
        assert!(shared.take_wanted());
        assert!(!shared.take_wanted(), "it was taken");
        shared.paused();
        shared.want();
        assert!(!shared.take_wanted(), "no poll was let through since");
        shared.let_through();
        assert!(shared.take_wanted());
        assert_eq!(shared.told.wanted.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn before_mmtk_can_collect_no_bound_and_no_wish_counts() {
        let shared = starting();
        shared.set_bound(Bytes(20));
        shared.want();
        assert_eq!((shared.limit(), shared.bound()), (Bytes(50), Bytes::MAX));
        assert!(!shared.take_wanted());
        assert!(shared.make_ready() && !shared.make_ready(), "news once");
        assert_eq!(
            (shared.limit(), shared.bound()),
            (Bytes(20), Bytes(20)),
            "now they do"
        );
        assert!(shared.take_wanted());
    }

    #[test]
    fn a_plan_that_never_collects_takes_no_wish() {
        let shared = shared();
        shared.never_collects();
        shared.want();
        assert!(!shared.take_wanted());
        assert_eq!(shared.told.wanted.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_threads_that_poll_at_once_one_takes_the_wish() {
        let shared = shared();
        for round in 1..=200 {
            shared.want();
            let taken: usize = std::thread::scope(|scope| {
                let polls = [0, 1].map(|_| scope.spawn(|| usize::from(shared.take_wanted())));
                polls.map(|poll| poll.join().unwrap()).iter().sum()
            });
            assert_eq!(taken, 1, "round {round}");
        }
    }
}
