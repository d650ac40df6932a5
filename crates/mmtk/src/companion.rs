//! The thread beside a heap that follows a broker. It only reads and writes numbers: it never calls
//! into MMTk, and no hook waits for it.

use crate::shared::Shared;
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_client::{Follower, Granted, spawn_quiet};
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::process::own;
use plimsoll_policy::footprint::{Within, threshold};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pause between two looks while a broker gives numbers, and without one.
const JOINED: Duration = Duration::from_millis(100);
const ALONE: Duration = Duration::from_secs(1);
/// Looks over which the use of the rest of the family is taken as the least.
const FAMILY_WINDOW: usize = 8;
/// Nanoseconds between two reports.
const REPORT_EVERY: u64 = 1_000_000_000;
/// Nanoseconds from one collection that was asked for to the next, while as much is owed as before: the first
/// pause, and the longest. A heap whose live data do not fit is collected in vain.
const ASK_AGAIN: (u64, u64) = (500_000_000, 30_000_000_000);

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
        reported: 0,
        before: (now_ns(), 0),
        asks: Asks::default(),
        family: [0; FAMILY_WINDOW],
        looks: 0,
        stalls: Stalls::new(stalls),
    };
    while let Some(shared) = shared.upgrade() {
        let granted = follower.read();
        companion.look(&shared, &follower, granted);
        drop(shared);
        follower.wait(if granted.is_some() { JOINED } else { ALONE });
    }
}

#[derive(Debug)]
struct Companion {
    /// Resident anonymous memory beside the heap when it was first seen, bytes.
    base: Option<u64>,
    /// Time of the last report, ns.
    reported: u64,
    /// Time and bytes allocated at the last report.
    before: (u64, u64),
    /// When a collection is asked for, and what is owed.
    asks: Asks,
    /// What the broker counted beside this process at the last looks, bytes.
    family: [u64; FAMILY_WINDOW],
    looks: usize,
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

/// When to ask for a collection, because memory is owed to the broker.
#[derive(Clone, Copy, Debug, Default)]
struct Asks {
    /// What was owed at the last look, bytes.
    owed: u64,
    /// When a collection was last asked for, ns.
    asked: u64,
    /// How long to wait before the next, ns.
    pause: u64,
}

impl Asks {
    /// A look at what is owed, bytes. At once if it became more, and then ever more rarely as long as any is.
    fn asks(&mut self, owed: u64, now: u64) -> bool {
        let more = owed > self.owed;
        self.owed = owed;
        let again = owed > 0 && now.saturating_sub(self.asked) >= self.pause;
        if more || again {
            let (first, longest) = ASK_AGAIN;
            self.pause = if more {
                first
            } else {
                self.pause.saturating_mul(2).min(longest)
            };
            self.asked = now;
        }
        more || again
    }
}

impl Companion {
    fn look(&mut self, shared: &Shared, follower: &Follower, granted: Option<Granted>) {
        // In this order: the stalls are those until this collection at least.
        let collections = shared.told.collections.load(Acquire);
        let told = (collections, shared.told.stalls.load(Acquire));
        let Some(granted) = granted else {
            self.stalls.look(told, false);
            self.asks = Asks::default();
            return shared.lift_bound();
        };
        let resident = own::anonymous().map_or(0, |anonymous| anonymous.resident);
        let touched = shared.told.touched.load(Acquire);
        let beside = resident.saturating_sub(touched);
        let base = *self.base.get_or_insert(beside);
        let family = self.family(granted.uses.saturating_sub(resident));
        let other = beside.max(base).saturating_add(family);
        shared.follow_bound(threshold(granted.limit).saturating_sub(other));
        let keeps = granted.owed == 0 && granted.uses.max(resident) <= granted.limit;
        self.stalls.look(told, keeps);
        let now = now_ns();
        shared.owes(granted.owed > 0);
        if self.asks.asks(granted.owed, now) {
            shared.want();
        }
        if now.saturating_sub(self.reported) >= REPORT_EVERY {
            self.reported = now;
            follower.report(&self.report(shared, now, other));
        }
    }

    /// The use of the rest of the family, such as children: the least of the last looks, because the
    /// broker's count is older than ours while the heap grows or shrinks.
    fn family(&mut self, seen: u64) -> u64 {
        self.family[self.looks % FAMILY_WINDOW] = seen;
        self.looks = self.looks.wrapping_add(1);
        match self.looks < FAMILY_WINDOW {
            true => 0,
            false => self.family.iter().copied().min().unwrap_or(0),
        }
    }

    fn report(&mut self, shared: &Shared, now: u64, other: u64) -> Report {
        let told = &shared.told;
        let live = told.live.load(Acquire);
        let allocated = told.allocated.load(Acquire);
        let (then, before) = std::mem::replace(&mut self.before, (now, allocated));
        let rate = per_second(allocated.saturating_sub(before), now.saturating_sub(then));
        let collections = told.collections.load(Acquire);
        let collected = collections > 0;
        let examined = told.full.load(Acquire) > 0;
        let whole = told.whole.load(Acquire);
        let last = told.last.load(Acquire);
        Report {
            live: examined.then_some(live),
            allocation_rate: collected.then_some(rate),
            collection_speed: (examined && whole > 0).then(|| per_second(live, whole).max(1)),
            demand: Some(shared.max().saturating_add(other)),
            floor: Some(other.saturating_add(told.needs.load(Acquire))),
            collections: Some(collections),
            collection_ms: Some(told.stopped.load(Acquire) / 1_000_000),
            stalls: self.stalls.count(),
            collector: Some(Statistics {
                heap: Some(told.touched.load(Acquire)),
                last_pause_us: (last > 0).then_some(last / 1000),
                longest_pause_us: collected.then(|| told.longest.load(Acquire) / 1000),
                ..Statistics::default()
            }),
            ..Report::default()
        }
    }
}

/// Bytes per second, of bytes in a time of ns.
fn per_second(bytes: u64, ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_asked_for_at_once_and_then_ever_more_rarely() {
        let mut asks = Asks::default();
        let half = |halves: u64| halves * 500_000_000;
        assert!(!asks.asks(0, half(1)));
        assert!(asks.asks(100, half(2)), "it became more");
        assert!(!asks.asks(100, half(2) + 1));
        assert!(asks.asks(90, half(3)), "something is owed still");
        assert!(!asks.asks(90, half(4)));
        assert!(asks.asks(90, half(5)));
        let asked = (6..606).filter(|&halves| asks.asks(90, half(halves)));
        assert_eq!(asked.count(), 4 + 9, "2, 4, 8, 16 s and then each 30 s");
        assert!(asks.asks(91, half(606)), "it became more");
        assert!(!asks.asks(0, half(700)));
    }

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
