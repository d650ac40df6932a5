//! When to collect: how much may be allocated until the next collection.

use crate::settings::{GC_free_space_divisor, GC_on_heap_resize, min_bytes};
use plimsoll_heap::{Central, SUPERPAGE};

/// What a heap may use, and what the user said of that.
#[derive(Default)]
pub(crate) struct Pace {
    /// Superpages that the heap has addresses for.
    pub(crate) room: usize,
    /// Bytes to begin with (`GC_INITIAL_HEAP_SIZE`).
    pub(crate) initial: usize,
    /// Bytes at most (`GC_MAXIMUM_HEAP_SIZE`, `GC_set_max_heap_size`).
    pub(crate) most: Option<usize>,
    /// Bytes that the program said it will need (`GC_expand_hp`).
    pub(crate) expected: usize,
    /// Bytes that the last collection found that trusted no summaries.
    known_live: usize,
    /// The next one does not either.
    complete: bool,
    /// Bytes to allocate from the last collection to the next, and how many were ever allocated at the last.
    allowance: usize,
    allocated: u64,
    /// Superpages that a broker lets the heap have.
    granted: Option<usize>,
    /// Superpages that the heap may have in any case until the next collection, and that there is room for.
    floor: usize,
    ceiling: usize,
    /// Superpages that the heap comes to have until the next collection ends, and how many of these
    /// are left for its steps: by so many its limit is lower.
    goal: usize,
    reserve: usize,
    /// Where nothing can be paged out: superpages that were decided on, beyond which a broker's grant does
    /// not lift it, and how many it takes of these before it is looked again what there is room for.
    decided: Option<usize>,
    slice: usize,
    /// There are holes everywhere.
    is_ragged: bool,
    /// What the program was told of the heap's size last.
    told: usize,
    pub(crate) verbose: u8,
    pub(crate) markers: Option<usize>,
}

/// By how much a heap may grow until the next collection. Bytes.
pub(crate) struct Growth {
    /// By so many.
    pub(crate) bytes: usize,
    /// While so many are allocated.
    pub(crate) allowance: usize,
    /// There is room for so many.
    pub(crate) most: usize,
    /// Memory is short.
    pub(crate) short: bool,
    /// Nothing can be paged out.
    pub(crate) cliff: bool,
}

/// What a collection found.
pub(crate) struct Found {
    /// Bytes of live objects that hold references, and that hold none.
    pub(crate) composite: usize,
    pub(crate) atomic: usize,
    /// Bytes of roots.
    pub(crate) roots: usize,
    /// Bytes of holes in superpages that are in use, and of superpages that were freed.
    pub(crate) holes: usize,
    pub(crate) freed: usize,
}

/// A heap begins with this, in bytes.
const BEGIN: usize = 1 << 20;

/// A collection for less than this is not worth stopping the world, whatever `GC_set_min_bytes_allocd` said.
const LEAST: usize = 64 << 10;

/// What is left for steps is at most one in so many parts of what a heap grows by.
const LEFT: usize = 4;

/// Where nothing can be paged out, it is looked again after one in so many parts of what there is room for.
const SLICES: usize = 64;

/// A heap that was larger shrinks by this part of what is too much at each collection. (libgc's
/// does not shrink.)
const DECAY: usize = 1024;
/// By this part where nothing can be paged out: what is free may be wanted by others, but is not to come
/// and go with each collection.
const CLIFF_DECAY: usize = 16;

impl Pace {
    /// Superpages of the heap's maximum.
    fn cap(&self) -> usize {
        self.most
            .map_or(self.room, |bytes| (bytes / SUPERPAGE).min(self.room))
    }

    /// Before the first collection. There is room for so many `most` bytes.
    pub(crate) fn begin(&mut self, central: &mut Central, most: usize) {
        let bytes = BEGIN.max(self.initial.min(most));
        self.goal = bytes.div_ceil(SUPERPAGE).min(self.cap());
        central.set_limit(self.goal);
    }

    /// Bytes to allocate until the next collection, by libgc's rule: what a collection reads,
    /// divided. What is atomic is not read, what is composite is read and looked up.
    pub(crate) fn allowance(found: &Found) -> usize {
        let read = 2 * found.composite + found.atomic / 4 + found.roots;
        (read / GC_free_space_divisor.get().max(1))
            .max(min_bytes.get())
            .max(LEAST)
    }

    /// Whether the next collection is to trust no summaries: what they keep may have grown to a
    /// fifth of the heap.
    pub(crate) fn wants_complete(&self) -> bool {
        self.complete
    }

    /// After a collection, which may have `trusted` summaries.
    pub(crate) fn after(&mut self, found: &Found, trusted: bool) {
        let live = found.composite + found.atomic;
        if !trusted {
            self.known_live = live;
        }
        self.complete = trusted && live > self.known_live / 5 * 6 + BEGIN;
    }

    /// By how much the heap grows until the next collection, where memory is not short: holes are
    /// filled first, so only the rest is new. Where they are of sizes that nobody wants the heap
    /// asks for more ([`defer`](Pace::defer)): a heap of which no superpage is ever free again
    /// would grow each time otherwise.
    pub(crate) fn growth(found: &Found, allowance: usize) -> usize {
        allowance.saturating_sub(found.holes)
    }

    /// A collection ended, and so much may be allocated until the next.
    pub(crate) fn note_holes(&mut self, found: &Found, allowance: usize) {
        self.is_ragged = found.holes >= allowance && found.freed < allowance / 8;
    }

    /// Whether the last collection found holes enough for what may be allocated until the next, and
    /// freed hardly any superpage.
    pub(crate) fn is_ragged(&self) -> bool {
        self.is_ragged
    }

    /// Lets the heap grow. Where memory is short one that was larger shrinks at once. Of what it
    /// grows by, `reserve` bytes are wanted for the next collection's steps.
    pub(crate) fn grow(
        &mut self,
        central: &mut Central,
        allocated: u64,
        growth: &Growth,
        reserve: usize,
    ) {
        let used = central.used();
        let usual = growth.bytes.div_ceil(SUPERPAGE);
        let due = used + usual;
        let progress = (used / 16).max(BEGIN / SUPERPAGE);
        self.floor = used + progress.min(usual);
        let least = BEGIN.max(self.initial).max(self.expected) / SUPERPAGE;
        let larger = if growth.short {
            0
        } else {
            let surplus = self.goal.saturating_sub(due);
            let decay = if growth.cliff { CLIFF_DECAY } else { DECAY };
            (due + surplus - surplus.div_ceil(decay)).max(least)
        };
        let most = used.saturating_add(growth.most / SUPERPAGE);
        self.ceiling = most.max(due).min(self.cap());
        self.goal = larger.max(due).min(self.ceiling);
        self.reserve = (reserve / SUPERPAGE).min(self.goal.saturating_sub(used) / LEFT);
        self.decided = growth.cliff.then_some(self.goal);
        self.slice = match growth.cliff {
            true => (growth.most / SUPERPAGE / SLICES).max(BEGIN / SUPERPAGE),
            false => usize::MAX,
        };
        let first = used.saturating_add(self.slice);
        let first = if growth.short {
            first
        } else {
            first.max(least)
        };
        central.set_limit((self.goal - self.reserve).min(first));
        let left = (self.reserve * SUPERPAGE).min(growth.allowance / LEFT);
        (self.allowance, self.allocated) = (growth.allowance - left, allocated);
    }

    /// More room, for `bytes` at least, where less was allocated since the last collection than it
    /// left to allocate: the holes that were there are of classes that nobody wants. False where it
    /// is time to collect.
    ///
    /// On a cliff a little at a time: now there is room for `room` bytes.
    pub(crate) fn defer(
        &mut self,
        central: &mut Central,
        bytes: usize,
        allocated: u64,
        room: Option<usize>,
    ) -> bool {
        let since = (allocated - self.allocated) as usize;
        let rest = self.allowance.saturating_sub(since);
        // Few bytes are not worth to come here again; and where none are left, none is too many.
        if bytes.max(self.allowance / 8).max(1) > rest {
            return false;
        }
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
        central.set_limit(wanted.max(central.limit()));
        true
    }

    /// Superpages that the heap may have without a collection.
    fn most(&self) -> usize {
        let granted = self.granted.unwrap_or(usize::MAX);
        granted.min(self.ceiling).min(self.cap())
    }

    /// Superpages that the heap will fill before the next collection ends.
    pub(crate) fn fills(&self, central: &Central) -> usize {
        self.goal.saturating_sub(central.used())
    }

    /// A broker says how many superpages the heap may have, or says no more: a collection is due
    /// where it has more, but not before the program has made some progress. On a `cliff` it does
    /// not grow for that.
    pub(crate) fn follow(&mut self, central: &mut Central, superpages: Option<usize>, cliff: bool) {
        self.granted = superpages;
        if cliff && self.decided.is_none() {
            self.decided = Some(self.goal);
        }
        if let Some(superpages) = superpages {
            let cap = self.cap();
            let most = self.decided.map_or(cap, |decided| decided.min(cap));
            let usual = superpages.saturating_sub(self.reserve).max(self.floor);
            self.goal = superpages.max(self.floor).min(most);
            central.set_limit(match self.decided {
                Some(_) => usual.min(central.limit()),
                None => usual.min(most),
            });
        }
    }

    /// Bytes of what lives that may live only because summaries say so.
    pub(crate) fn retained(&self, live: u64) -> u64 {
        live.saturating_sub(self.known_live as u64)
    }

    /// Nobody speaks to the broker any more.
    pub(crate) fn orphaned(&mut self) {
        self.granted = None;
    }

    /// The maximum that was set just now holds from now on.
    pub(crate) fn bound(&mut self, central: &mut Central) {
        let cap = self.cap();
        self.goal = self.goal.min(cap);
        central.set_limit(central.limit().min(cap));
    }

    /// Bytes of the heap: what it may use before the next collection ends, whether it has objects
    /// there or not.
    pub(crate) fn size(&self, central: &Central) -> usize {
        self.goal.max(central.used()) * SUPERPAGE
    }

    /// Tells the program of the heap's size, if that is not what it was told last.
    pub(crate) fn tell(&mut self, central: &Central) {
        let size = self.size(central);
        if size != std::mem::replace(&mut self.told, size)
            && let Some(callback) = GC_on_heap_resize.get()
        {
            callback(size);
        }
    }

    /// So much more, from now on, as soon as there is room: now there is for `most` bytes. False
    /// where the maximum is reached.
    pub(crate) fn expand(&mut self, central: &mut Central, superpages: usize, most: usize) -> bool {
        let before = self.goal.max(central.used());
        let wanted = before.saturating_add(superpages);
        if wanted > self.cap() {
            return false;
        }
        let most = central.used().saturating_add(most / SUPERPAGE);
        self.goal = wanted.min(most).max(before);
        central.set_limit(central.limit().max(self.goal.saturating_sub(self.reserve)));
        self.expected = wanted * SUPERPAGE;
        true
    }

    /// Room for so many superpages until the next step of a collection. False where there is not.
    pub(crate) fn step(&self, central: &mut Central, superpages: usize) -> bool {
        let wanted = central.used().saturating_add(superpages);
        let most = match self.decided {
            // Holes are not filled meanwhile: what one in steps takes beyond it would stay.
            Some(decided) => decided.min(self.most()),
            None => self.most(),
        };
        if wanted > most {
            return false;
        }
        central.set_limit(wanted);
        true
    }

    /// More room without a collection, for `superpages` at least, and on a cliff for `last` bytes; false
    /// where the maximum is reached.
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
            (None, None) => (central.used() / 8).max((1 << 20) / SUPERPAGE),
        };
        let cap = self.cap();
        let limit = wanted.saturating_add(more).min(cap);
        if limit < wanted {
            return false;
        }
        self.goal = self.goal.max(limit.saturating_add(self.reserve).min(cap));
        self.decided = self.decided.map(|_| self.goal);
        central.set_limit(limit.max(central.limit()));
        true
    }

    /// What the heap may have now: a limit and a goal.
    pub(crate) fn bounds(&self, central: &Central) -> (usize, usize) {
        (central.limit(), self.goal)
    }

    /// Has the heap have no more than `before` what was tried since, but for what it uses.
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

    /// Superpages that a heap may have and comes to have, when it is to grow by so many.
    fn grow(pace: &mut Pace, central: &mut Central, superpages: usize) -> (usize, usize) {
        let growth = Growth {
            bytes: superpages * SUPERPAGE,
            allowance: superpages * SUPERPAGE,
            most: usize::MAX,
            short: false,
            cliff: false,
        };
        pace.grow(central, 0, &growth, 40 * SUPERPAGE);
        (central.limit(), pace.size(central) / SUPERPAGE)
    }

    fn pace() -> (Heap, Central, Pace) {
        let (heap, central) = Heap::new(Box::new(Linux::new()), 64 << 20).unwrap();
        let pace = Pace {
            room: 4096,
            ..Pace::default()
        };
        (heap, central, pace)
    }

    /// It grows by a part of what it may, and by the next where there is still room; a broker's grant lifts
    /// it no higher.
    #[test]
    fn on_a_cliff_it_grows_a_little_at_a_time() {
        let (_heap, mut central, mut pace) = pace();
        let growth = Growth {
            bytes: 400 * SUPERPAGE,
            allowance: 400 * SUPERPAGE,
            most: 800 * SUPERPAGE,
            short: false,
            cliff: true,
        };
        pace.grow(&mut central, 0, &growth, 40 * SUPERPAGE);
        assert_eq!(pace.bounds(&central), (64, 400));
        pace.follow(&mut central, Some(3000), true);
        assert_eq!(pace.bounds(&central), (64, 400));
        assert!(!pace.step(&mut central, 401), "steps fill no holes");
        let none = Some(50 * SUPERPAGE);
        assert!(!pace.defer(&mut central, 0, 0, none));
        let enough = Some(800 * SUPERPAGE);
        assert!(pace.defer(&mut central, 0, 0, enough));
        assert_eq!(pace.bounds(&central), (64, 400));
        // What is too large for that is asked for as a whole, and what is left of the last room is little.
        assert!(pace.raise(&mut central, 420, Some(2 * SUPERPAGE)));
        assert_eq!(pace.bounds(&central), (420, 460));
        pace.follow(&mut central, Some(60), true);
        assert_eq!(pace.bounds(&central).1, 64, "progress that was decided on");
    }

    #[test]
    fn holes_are_filled_first() {
        let found = |holes| Found {
            composite: 0,
            atomic: 0,
            roots: 0,
            holes,
            freed: 9,
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
        // They took longer, and more.
        assert!(pace.step(&mut central, 500));
        assert_eq!(grow(&mut pace, &mut central, 100), (358, 398));
        assert!(
            !pace.defer(&mut central, 0, 75 * SUPERPAGE as u64, None),
            "nothing is left"
        );
        pace.most = Some(80 * SUPERPAGE);
        let few = grow(&mut pace, &mut central, 100);
        assert_eq!(few, (60, 80), "a quarter is left at most");
    }
}
