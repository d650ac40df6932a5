//! The thread beside a heap that follows a broker. It only reads and writes numbers: it never calls
//! into MMTk, and no hook waits for it.

use crate::shared::Shared;
use plimsoll_client::govern::{Governor, Own, per_second};
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_client::{Follower, Granted, spawn_quiet};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own;
use plimsoll_policy::footprint::Within;
use plimsoll_unit::{Bytes, MIB, MILLISECOND, Nanos};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Weak};

/// Bytes that a heap may allocate between two collections, however large it is: one part in `GUARD_PART`.
const GUARD_PART: u64 = 64;

/// Time between two looks while a broker grants memory. The heap reports its allocation only at the end of a
/// collection, so a program that seems to rest may be allocating.
const LONGEST_PAUSE: Nanos = Nanos::millis(100);

/// Starts the thread. Without one (no memory for it), the heap goes on without a broker. `stalls`:
/// whether this heap can know of any.
pub(crate) fn start(shared: &Arc<Shared>, stalls: bool) {
    let shared = Arc::downgrade(shared);
    let _ = spawn_quiet("plimsoll-mmtk", move || run(&shared, stalls));
}

/// Ends when the heap is gone, or if there is nothing to follow.
fn run(shared: &Weak<Shared>, stalls: bool) {
    let Some(mut follower) = Follower::of_environment("mmtk", true) else {
        return;
    };
    let mut companion = Companion {
        base: None,
        governor: Governor::new(now(), Bytes::ZERO),
        stalls: Stalls::new(stalls),
    };
    while let Some(shared) = shared.upgrade() {
        let granted = follower.read();
        companion.look(&shared, &follower, granted);
        drop(shared);
        let is_heard = follower.is_principal();
        let mut pause = companion.governor.pause(granted.is_some(), is_heard);
        if granted.is_some() {
            pause = pause.min(LONGEST_PAUSE);
        }
        follower.wait(pause.duration());
    }
}

#[derive(Debug)]
struct Companion {
    /// Resident anonymous memory beside the heap when it was first seen.
    base: Option<Bytes>,
    /// Translates the broker's numbers into bounds of this heap.
    governor: Governor,
    /// Stalls although it kept to its limit.
    stalls: Stalls,
}

/// The stalls of the program while it kept to its limit. Hooks tell all stalls at the end of a collection.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    /// Whether a signal tells of any.
    known: bool,
    /// Those within the limit.
    within: Within,
    /// Collections, and all stalls, at the last look that saw a further collection.
    collections: u64,
    told: u64,
}

impl Stalls {
    fn new(known: bool) -> Stalls {
        Stalls {
            known,
            within: Within::default(),
            collections: 0,
            told: 0,
        }
    }

    /// A look: `collections` and `stalls` so far, and whether the program keeps to its limit now.
    fn look(&mut self, (collections, stalls): (u64, u64), keeps: bool) {
        let ended = (collections != self.collections).then(|| stalls.saturating_sub(self.told));
        if ended.is_some() {
            (self.collections, self.told) = (collections, stalls);
        }
        self.within.look(keeps, ended);
    }

    /// How many; `None` where no signal tells of stalls.
    fn count(&self) -> Option<u64> {
        self.known.then(|| self.within.count())
    }
}

impl Companion {
    fn look(&mut self, shared: &Shared, follower: &Follower, granted: Option<Granted>) {
        // In this order: the stalls are those until this collection at least.
        let collections = shared.told.collections.load(Acquire);
        let told = (collections, shared.told.stalls.load(Acquire));
        let now = now();
        let allocated = Bytes(shared.told.allocated.load(Acquire));
        self.governor.measure(now, allocated);
        let Some(granted) = granted else {
            self.stalls.look(told, false);
            return shared.lift_bound();
        };
        let resident = Bytes(own::anonymous().map_or(0, |anonymous| anonymous.resident.0));
        let touched = Bytes(shared.told.touched.load(Acquire));
        let base = *self.base.get_or_insert(resident - touched);
        let own = Own {
            resident,
            beside: (resident - touched).max(base),
            needs: Bytes(shared.told.needs.load(Acquire)),
            guard: (touched / GUARD_PART).max(Bytes(MIB)),
        };
        let govern = self.governor.step(now, granted, own);
        shared.follow_bound(govern.heap_limit);
        let owes = granted.owed > Bytes::ZERO;
        let keeps = !owes && granted.uses.max(resident) <= granted.limit;
        self.stalls.look(told, keeps);
        shared.owes(owes);
        if owes && govern.may_release {
            shared.want();
            // When the collection ends, and what it gives back, is seen at later looks.
            self.governor.released(now, now, resident);
        }
        if let Some(report) = govern.report {
            let beside = own.beside + govern.family;
            follower.report(&self.with_heap(report, shared, beside));
        }
    }

    /// A report with what is known of the heap. `other`: memory of the program that is not of it.
    fn with_heap(&self, report: Report, shared: &Shared, other: Bytes) -> Report {
        let told = &shared.told;
        let live = told.live.load(Acquire);
        let collections = told.collections.load(Acquire);
        let collected = collections > 0;
        let examined = told.full.load(Acquire) > 0;
        let whole = Nanos(told.whole.load(Acquire));
        let last = told.last.load(Acquire);
        let measured = examined && whole > Nanos::ZERO;
        Report {
            live: examined.then_some(live),
            allocation_rate: report.allocation_rate.filter(|_| collected),
            collection_speed: measured.then(|| per_second(Bytes(live), whole).max(1)),
            demand: Some((shared.max() + other).0),
            reaction_ms: None,
            collections: Some(collections),
            collection_ms: Some(told.stopped.load(Acquire) / MILLISECOND),
            stalls: self.stalls.count(),
            collector: Some(Statistics {
                heap: Some(told.touched.load(Acquire)),
                last_pause_us: (last > 0).then_some(last / 1000),
                longest_pause_us: collected.then(|| told.longest.load(Acquire) / 1000),
                ..Statistics::default()
            }),
            ..report
        }
    }
}

fn now() -> Nanos {
    clock::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_count_while_a_program_keeps_to_its_limit() {
        let mut known = Stalls::new(true);
        let mut after = |told, keeps| {
            known.look(told, keeps);
            known.count()
        };
        assert_eq!(after((1, 5), true), Some(0), "nobody knows when");
        assert_eq!(after((2, 7), true), Some(2));
        assert_eq!(after((3, 9), false), Some(2));
        assert_eq!(after((4, 12), true), Some(2), "it was giving memory back");
        assert_eq!(after((5, 13), true), Some(3));
        // Stalls are those since the collection before, so what was in between counts, too.
        after((5, 13), false);
        after((5, 13), true);
        assert_eq!(after((6, 20), true), Some(3), "it was giving memory back");
        assert_eq!(after((8, 21), true), Some(4), "two collections in one look");
        let mut unknown = Stalls::new(false);
        unknown.look((1, 1), true);
        unknown.look((2, 2), true);
        assert_eq!(unknown.count(), None);
    }
}
