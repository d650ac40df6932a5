//! When to collect: how much may be allocated until the next collection.

mod asked;
mod budget;
mod retention;

use crate::front_end::Conditions;
use asked::{Asked, BEGIN};
use budget::Budget;
use plimsoll_heap::{Central, Residency, SUPERPAGE};
use plimsoll_kernel::clock;
use plimsoll_policy::sizing;
use plimsoll_unit::{Bytes, Nanos};
use retention::Retention;
use std::time::Duration;

/// How much the heap may use, and what the user set for it. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Pace {
    asked: Asked,
    retention: Retention,
    budget: Budget,
    /// Superpages that a broker grants the heap; `None` without a broker.
    granted: Option<usize>,
    /// `floor`: superpages that the heap may have in any case until the next collection. `ceiling`:
    /// superpages for which there is room.
    floor: usize,
    ceiling: usize,
    /// `goal`: superpages that the heap will have by the end of the next collection. `reserve`: the
    /// part of these that is kept for the steps of that collection; the heap's limit is lower by
    /// that.
    goal: usize,
    reserve: usize,
    /// `decided`: set where nothing can be paged out; the superpages that were decided on. A broker's
    /// grant does not raise the heap beyond them. `slice`: how many superpages the heap takes before
    /// it is checked again whether to collect: there is less room, or there are new finalizers.
    decided: Option<usize>,
    slice: usize,
    /// The limit that the heap was given last, in superpages, apart from what the steps of a
    /// collection needed.
    given: usize,
    /// The heap has enough holes, but hardly any superpage becomes free.
    is_ragged: bool,
    /// The heap's size that the front end was last told, in bytes.
    told: usize,
}

/// By how much a heap may grow until the next collection, in bytes.
pub(crate) struct Growth {
    /// Growth until the next collection.
    pub(crate) bytes: usize,
    /// Bytes that may be allocated meanwhile.
    pub(crate) allowance: usize,
    /// Bytes for which there is room.
    pub(crate) most: usize,
    /// Memory is short.
    pub(crate) short: bool,
    /// Nothing can be paged out.
    pub(crate) cliff: bool,
    /// Collections may free much by having finalizers called.
    pub(crate) finalizes: bool,
    /// Bytes of holes.
    pub(crate) holes: usize,
}

/// The findings of a collection.
#[derive(Default)]
pub(crate) struct Found {
    /// Bytes of live objects: `composite` ones hold references, `atomic` ones hold none.
    pub(crate) composite: usize,
    pub(crate) atomic: usize,
    /// The part of `atomic` that small objects take.
    pub(crate) small: usize,
    /// How many small objects these are.
    pub(crate) small_objects: usize,
    /// `roots`: bytes of static data. `stacks`: bytes of the threads' stacks.
    pub(crate) roots: usize,
    pub(crate) stacks: usize,
    /// Bytes of dead objects that are kept for their finalizers.
    pub(crate) finalized: usize,
    /// `holes`: bytes of holes in superpages in use. `freed`: bytes of superpages that were freed.
    pub(crate) holes: usize,
    pub(crate) freed: usize,
}

/// The end of a collection.
pub(crate) struct Ended<'a> {
    /// It was a collection of young objects.
    pub(crate) young: bool,
    pub(crate) found: &'a Found,
    pub(crate) residency: &'a Residency,
    /// How long it took.
    pub(crate) took: Duration,
    /// The memory ever allocated.
    pub(crate) allocated: Bytes,
}

impl Ended<'_> {
    /// The same in the form that a policy takes, given that collections lately cost `cost`
    /// each, and that `usual` bytes may be allocated until the next one by libgc's rule.
    pub(crate) fn told(&self, cost: Nanos, usual: usize) -> sizing::Ended {
        sizing::Ended {
            now: clock::now(),
            took: self.took.into(),
            cost,
            live: Bytes::from(self.found.composite + self.found.atomic),
            allocated: self.allocated,
            growth: Pace::growth(self.found, usual).into(),
            stalls: self.residency.evicted as u64,
            ..sizing::Ended::default()
        }
    }
}

/// For fewer bytes than this, a collection is not worth stopping the world, whatever
/// the user set. (By libgc's rule it is about this for a program with a few
/// libraries and no data. Some programs see to it that their heaps stay small.) Stopping the world
/// takes as long as there are threads, and a heap is worth the square root of what a collection
/// costs.
const LEAST: usize = 192 << 10;

/// Where memory is short, a heap may grow by this many bytes in any case.
const PROGRESS: usize = 1 << 20;

/// Small atomic objects that live may cost as many collections as if they took this many times
/// their bytes ([`Pace::worth`]).
const SMALL: usize = 2;
/// To mark such an object takes no longer than to read this many bytes, however large it is.
const READ: usize = 1 << 10;

/// A heap whose objects have finalizers called looks whether there are many new ones when one part in
/// `CROWD` of it was allocated. Holes are filled first, so it need not grow by as much.
const CROWD: usize = 3;

/// The steps' reserve is at most one part in `LEFT` of a heap's growth.
const LEFT: usize = 4;

/// Where nothing can be paged out, the room is checked again whenever one part in `SLICES` of it is
/// used.
const SLICES: usize = 64;

/// At each collection, a heap that was larger before gives up one part in `DECAY` of its surplus.
/// (libgc's heap does not shrink.)
const DECAY: usize = 1024;
/// The same where nothing can be paged out: other programs may want the free memory, but the heap
/// is not to shrink and grow with each collection.
const CLIFF_DECAY: usize = 16;

impl Pace {
    /// The pace of a new heap that has addresses for `room` superpages.
    pub(crate) fn new(room: usize, initial: usize, most: Option<usize>) -> Pace {
        Pace {
            asked: Asked::new(room, initial, most),
            ..Pace::default()
        }
    }

    /// Sets the limit until the first collection. There is room for `most` bytes.
    pub(crate) fn begin(&mut self, central: &mut Central, most: usize) {
        let bytes = self.asked.first(most);
        self.goal = bytes.div_ceil(SUPERPAGE).min(self.asked.cap());
        self.ceiling = usize::MAX;
        self.budget = Budget::new(bytes.max(LEAST), Bytes::ZERO);
        self.given = self.goal;
        central.set_limit(self.goal);
    }

    /// Bytes to allocate until the next collection, by libgc's rule: a share of what a collection
    /// reads. Atomic objects are not read. Composite objects and stacks are read, and their words
    /// are looked up. Objects whose finalizers are due count as allocated: they will be free soon.
    pub(crate) fn allowance(found: &Found, conditions: &Conditions) -> usize {
        let read = 2 * (found.composite + found.stacks) + found.atomic / 4 + found.roots;
        let share = read / conditions.divisor.max(1);
        share
            .saturating_sub(found.finalized)
            .max(share / 8)
            .max(conditions.least)
            .max(LEAST * conditions.threads.max(1).isqrt())
    }

    /// Bytes that a heap may have between two collections if these take much of the program's time.
    /// To mark a small atomic object takes nearly as long as if it were read, but by libgc's rule it
    /// is hardly a reason to collect less often. (libgc's heap gets larger than by its rule: whenever
    /// the holes of one size run out, it grows by a third.)
    pub(crate) fn worth(found: &Found, conditions: &Conditions) -> usize {
        // The usual divisor is 3.
        let bytes = found.small.min(found.small_objects * READ);
        SMALL * 3 * bytes / conditions.divisor.max(1)
    }

    /// Whether the next collection is to trust no summaries: stale summaries may keep objects that
    /// add up to a fifth of the heap.
    pub(crate) fn wants_complete(&self) -> bool {
        self.retention.wants_complete()
    }

    /// Notes the result of a collection. `trusted`: whether it trusted summaries.
    pub(crate) fn after(&mut self, found: &Found, trusted: bool) {
        let live = Bytes::from(found.composite + found.atomic);
        self.retention.after(live, trusted, PROGRESS.into());
    }

    /// By how many bytes the heap grows until the next collection, if memory is not short. Holes
    /// are filled first, so only the rest of the allowance is new memory. If the holes have sizes
    /// that nobody wants, the heap asks for more ([`defer`](Pace::defer)). Without this rule, a
    /// heap in which superpages never become free again would grow each time.
    pub(crate) fn growth(found: &Found, allowance: usize) -> usize {
        allowance.saturating_sub(found.holes)
    }

    /// Notes at the end of a collection how useful its holes are; `allowance` bytes may be
    /// allocated until the next one.
    pub(crate) fn note_holes(&mut self, found: &Found, allowance: usize) {
        self.is_ragged = found.holes >= allowance && found.freed < allowance / 8;
    }

    /// Whether the last collection found enough holes for the allowance, but freed hardly any
    /// superpage.
    pub(crate) fn is_ragged(&self) -> bool {
        self.is_ragged
    }

    /// Sets how far the heap may grow. If memory is short, a heap that was larger shrinks at once.
    /// `reserve` bytes of the growth are kept for the steps of the next collection.
    pub(crate) fn grow(
        &mut self,
        central: &mut Central,
        allocated: Bytes,
        growth: &Growth,
        reserve: usize,
    ) {
        let used = central.used();
        let usual = growth.bytes.div_ceil(SUPERPAGE);
        let due = used + usual;
        let progress = (used / 16).max(PROGRESS / SUPERPAGE);
        self.floor = used + progress.min(usual);
        let least = self.asked.least();
        let larger = if growth.short {
            0
        } else {
            let surplus = self.goal.saturating_sub(due);
            let decay = if growth.cliff { CLIFF_DECAY } else { DECAY };
            (due + surplus - surplus.div_ceil(decay)).max(least)
        };
        let most = used.saturating_add(growth.most / SUPERPAGE);
        self.ceiling = most.max(due).min(self.asked.cap());
        self.goal = larger.max(due).min(self.ceiling);
        self.reserve = (reserve / SUPERPAGE).min(self.goal.saturating_sub(used) / LEFT);
        self.decided = growth.cliff.then_some(self.goal);
        self.slice = if growth.cliff {
            (growth.most / SUPERPAGE / SLICES).max(PROGRESS / SUPERPAGE)
        } else if growth.finalizes {
            let before = self.given.saturating_sub(used);
            let new = (used / CROWD).saturating_sub(growth.holes / SUPERPAGE);
            before.max(new).max(LEAST / SUPERPAGE)
        } else {
            usize::MAX
        };
        let first = used.saturating_add(self.slice);
        let first = if growth.short {
            first
        } else {
            first.max(least)
        };
        self.given = (self.goal - self.reserve).min(first);
        central.set_limit(self.given);
        let left = (self.reserve * SUPERPAGE).min(growth.allowance / LEFT);
        self.budget = Budget::new(growth.allowance - left, allocated);
    }

    /// Bytes allocated since the last collection, of the `allocated` since the start.
    pub(crate) fn since(&self, allocated: Bytes) -> usize {
        self.budget.since(allocated)
    }

    /// Whether so much was allocated since the last collection that another one may be worth it.
    pub(crate) fn is_enough(since: usize) -> bool {
        since >= BEGIN
    }

    /// Raises the limit by at least `bytes` bytes, if less than the allowance was allocated since
    /// the last collection: then the holes have classes that nobody wants. False if it is time to
    /// collect.
    ///
    /// Where nothing can be paged out, the limit rises a little at a time; `room` is the number of
    /// bytes for which there is room now.
    pub(crate) fn defer(
        &mut self,
        central: &mut Central,
        bytes: usize,
        allocated: Bytes,
        room: Option<usize>,
    ) -> bool {
        let Some(rest) = self.budget.left(allocated, bytes) else {
            return false;
        };
        if let Some(room) = room {
            self.ceiling = central.used().saturating_add(room / SUPERPAGE);
        }
        let few = self.slice.max(bytes.div_ceil(SUPERPAGE));
        let wanted = central.used() + rest.div_ceil(SUPERPAGE).min(few);
        let goal = wanted + self.reserve;
        if goal > self.most() {
            return false;
        }
        self.goal = self.goal.max(goal);
        self.decided = self.decided.map(|_| self.goal);
        self.given = wanted.max(central.limit());
        central.set_limit(self.given);
        true
    }

    /// Superpages that the heap may have without a collection.
    fn most(&self) -> usize {
        let granted = self.granted.unwrap_or(usize::MAX);
        granted.min(self.ceiling).min(self.asked.cap())
    }

    /// Superpages that the heap will fill before the next collection ends.
    pub(crate) fn fills(&self, central: &Central) -> usize {
        self.goal.saturating_sub(central.used())
    }

    /// Follows a broker, which grants `superpages` superpages, or no longer grants any. If the heap
    /// has more, a collection is due, but not before the program has made some progress. Where
    /// nothing can be paged out (`cliff`), a grant does not make the heap grow.
    pub(crate) fn follow(&mut self, central: &mut Central, superpages: Option<usize>, cliff: bool) {
        self.granted = superpages;
        if cliff && self.decided.is_none() {
            self.decided = Some(self.goal);
        }
        if let Some(superpages) = superpages {
            let cap = self.asked.cap();
            let most = self.decided.map_or(cap, |decided| decided.min(cap));
            let usual = superpages.saturating_sub(self.reserve).max(self.floor);
            self.goal = superpages.max(self.floor).min(most);
            central.set_limit(match self.decided {
                Some(_) => usual.min(central.limit()),
                None => usual.min(most),
            });
        }
    }

    /// The live objects that may be alive only because of stale summaries.
    pub(crate) fn retained(&self, live: Bytes) -> Bytes {
        self.retention.retained(live)
    }

    /// Forgets the broker's grant, because no broker is followed any more.
    pub(crate) fn orphaned(&mut self) {
        self.granted = None;
    }

    /// Sets the heap's maximum in bytes; `None` for none.
    pub(crate) fn bound(&mut self, central: &mut Central, most: Option<usize>) {
        self.asked.set_most(most);
        let cap = self.asked.cap();
        self.goal = self.goal.min(cap);
        central.set_limit(central.limit().min(cap));
    }

    /// The heap's size in bytes: what it may use before the next collection ends, whether or not
    /// there are objects.
    pub(crate) fn size(&self, central: &Central) -> usize {
        self.goal.max(central.used()) * SUPERPAGE
    }

    /// The heap's size in bytes, if it has changed since this was last called.
    pub(crate) fn new_size(&mut self, central: &Central) -> Option<usize> {
        let size = self.size(central);
        (size != std::mem::replace(&mut self.told, size)).then_some(size)
    }

    /// Lets the heap grow by `superpages` superpages as soon as there is room for them; now there
    /// is room for `most` bytes. False if that would exceed the maximum.
    pub(crate) fn expand(&mut self, central: &mut Central, superpages: usize, most: usize) -> bool {
        let before = self.goal.max(central.used());
        let wanted = before.saturating_add(superpages);
        if wanted > self.asked.cap() {
            return false;
        }
        let most = central.used().saturating_add(most / SUPERPAGE);
        self.goal = wanted.min(most).max(before);
        central.set_limit(central.limit().max(self.goal.saturating_sub(self.reserve)));
        self.asked.expect(wanted);
        true
    }

    /// Raises the limit by `superpages` superpages until the next step of a collection. False if
    /// there is no room.
    pub(crate) fn step(&self, central: &mut Central, superpages: usize) -> bool {
        let wanted = central.used().saturating_add(superpages);
        let most = match self.decided {
            // Holes are not filled during a collection in steps, so what it takes beyond the
            // decided size would stay.
            Some(decided) => decided.min(self.most()),
            None => self.most(),
        };
        if wanted > most {
            return false;
        }
        central.set_limit(wanted);
        true
    }

    /// Raises the limit without a collection, by at least `superpages` superpages. Where nothing
    /// can be paged out, `last` bytes may be taken in any case. False if that would exceed the
    /// maximum.
    pub(crate) fn raise(
        &mut self,
        central: &mut Central,
        superpages: usize,
        last: Option<usize>,
    ) -> bool {
        let wanted = central.used().saturating_add(superpages);
        let more = match (last, self.granted) {
            (Some(bytes), _) => (bytes / SUPERPAGE).min(central.used() / 8),
            (None, Some(_)) => 0,
            (None, None) => (central.used() / 8).max(LEAST / SUPERPAGE),
        };
        let cap = self.asked.cap();
        let limit = wanted.saturating_add(more).min(cap);
        if limit < wanted {
            return false;
        }
        self.goal = self.goal.max(limit.saturating_add(self.reserve).min(cap));
        self.decided = self.decided.map(|_| self.goal);
        self.given = limit.max(central.limit());
        central.set_limit(self.given);
        true
    }

    /// The heap's current limit and goal, in superpages.
    pub(crate) fn bounds(&self, central: &Central) -> (usize, usize) {
        (central.limit(), self.goal)
    }

    /// Takes back what was raised since `before`, except for what the heap already uses.
    pub(crate) fn lower(&mut self, central: &mut Central, before: (usize, usize)) {
        let used = central.used();
        self.goal = before.1.max(used).min(self.goal);
        central.set_limit(before.0.max(used).min(central.limit()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_heap::Heap;
    use plimsoll_heap::os::Linux;

    #[test]
    fn of_larger_atomic_objects_their_number_counts() {
        let found = |small_objects, each| Found {
            small: small_objects * each,
            small_objects,
            ..Found::default()
        };
        let worth = |found| Pace::worth(&found, &Conditions::default());
        assert_eq!(worth(found(1000, 64)), 2 * 64_000);
        assert_eq!(worth(found(1000, 4096)), worth(found(1000, 1024)));
    }

    /// A heap's limit and goal after it may grow by `superpages` superpages.
    fn grow(pace: &mut Pace, central: &mut Central, superpages: usize) -> (usize, usize) {
        let growth = Growth {
            bytes: superpages * SUPERPAGE,
            allowance: superpages * SUPERPAGE,
            most: usize::MAX,
            short: false,
            cliff: false,
            finalizes: false,
            holes: 0,
        };
        pace.grow(central, Bytes::ZERO, &growth, 40 * SUPERPAGE);
        (central.limit(), pace.size(central) / SUPERPAGE)
    }

    fn pace() -> (Heap, Central, Pace) {
        let (heap, central) = Heap::new(Box::new(Linux::new()), 64 << 20).unwrap();
        (heap, central, Pace::new(4096, 0, None))
    }

    /// The heap grows by one part of what it may, and by the next part if there is still room. A
    /// broker's grant does not raise it further.
    #[test]
    fn on_a_cliff_it_grows_a_little_at_a_time() {
        let (_heap, mut central, mut pace) = pace();
        let growth = Growth {
            bytes: 400 * SUPERPAGE,
            allowance: 400 * SUPERPAGE,
            most: 800 * SUPERPAGE,
            short: false,
            cliff: true,
            finalizes: false,
            holes: 0,
        };
        pace.grow(&mut central, Bytes::ZERO, &growth, 40 * SUPERPAGE);
        assert_eq!(pace.bounds(&central), (64, 400));
        pace.follow(&mut central, Some(3000), true);
        assert_eq!(pace.bounds(&central), (64, 400));
        assert!(!pace.step(&mut central, 401), "steps fill no holes");
        let none = Some(50 * SUPERPAGE);
        assert!(!pace.defer(&mut central, 0, Bytes::ZERO, none));
        let enough = Some(800 * SUPERPAGE);
        assert!(pace.defer(&mut central, 0, Bytes::ZERO, enough));
        assert_eq!(pace.bounds(&central), (64, 400));
        // A request that is larger than a slice is granted as a whole; little of the last room is
        // left.
        assert!(pace.raise(&mut central, 420, Some(2 * SUPERPAGE)));
        assert_eq!(pace.bounds(&central), (420, 460));
        pace.follow(&mut central, Some(60), true);
        assert_eq!(pace.bounds(&central).1, 64, "progress that was decided on");
    }

    #[test]
    fn holes_are_filled_first() {
        let found = |holes| Found {
            holes,
            freed: 9,
            ..Found::default()
        };
        assert_eq!(Pace::growth(&found(90), 80), 0);
        assert_eq!(Pace::growth(&found(60), 80), 20);
        let mut pace = Pace::default();
        for (holes, allowance, ragged) in [(90, 80, true), (70, 80, false), (90, 70, false)] {
            pace.note_holes(&found(holes), allowance);
            assert_eq!(pace.is_ragged(), ragged, "{holes} {allowance}");
        }
    }

    #[test]
    fn what_is_left_for_steps_makes_no_heap_larger() {
        let (_heap, mut central, mut pace) = pace();
        assert_eq!(grow(&mut pace, &mut central, 400), (360, 400));
        assert_eq!(grow(&mut pace, &mut central, 100), (359, 399), "it shrinks");
        // The steps took longer, and more memory.
        assert!(pace.step(&mut central, 500));
        assert_eq!(grow(&mut pace, &mut central, 100), (358, 398));
        assert!(
            !pace.defer(&mut central, 0, Bytes::from(75 * SUPERPAGE), None),
            "nothing is left"
        );
        pace.asked.set_most(Some(80 * SUPERPAGE));
        let few = grow(&mut pace, &mut central, 100);
        assert_eq!(few, (60, 80), "a quarter is left at most");
    }
}
