//! Residency: which parts of the heap are in memory and which in swap when a collection begins, and
//! whether summaries of the absent superpages are valid.

use crate::address::{SUPERPAGE, Superpage};
use crate::bits;
use crate::central::Central;
use crate::descriptor::{Use, age, flag};
use crate::heap::Heap;
use crate::tracking::Means;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The tables are asked for in multiples of this, in bytes; each table begins at a multiple.
const TABLE_PAGE: usize = 4 << 10;

/// For this many whole collections, a superpage that was paged out and came back is not paged out
/// again.
const HOLD: u8 = 8;

/// The kind of collection that a look begins, or whose last step it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Trust no summaries: everything absent will be read. For the last step of a collection this
    /// may be set only if its first step trusted none either: otherwise there may be marked objects
    /// that were not scanned because a summary stood for them.
    pub complete: bool,
    /// A collection of young objects. It makes no superpage older: several may happen during one
    /// whole collection, and superpages that were unchanged for only that long would be paged out
    /// and read again.
    pub young: bool,
}

/// Result of a look at the heap's pages; all counts are superpages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Residency {
    /// Superpages that are in swap, at least in part.
    pub absent: usize,
    /// Absent superpages with a valid summary.
    pub summarised: usize,
    /// Superpages that were written to, so that their summaries were dropped.
    pub dropped: usize,
    /// Superpages that the kernel evicted since the last look, without being asked to.
    pub evicted: usize,
    /// Superpages that the kernel was asked to page out, and that came back since.
    pub returned: usize,
    /// Superpages that were armed, and were written to since.
    pub written: usize,
}

impl Residency {
    /// This look combined with an `earlier` look of the same collection.
    pub fn after(self, earlier: &Residency) -> Residency {
        Residency {
            dropped: self.dropped + earlier.dropped,
            evicted: self.evicted + earlier.evicted,
            returned: self.returned + earlier.returned,
            written: self.written + earlier.written,
            ..self
        }
    }
}

impl Heap {
    /// Restricts the heap to these means, from the first collection on. The first call decides.
    pub fn limit_means(&self, means: Means) {
        self.tracking.limit(means);
    }

    /// Asks for the tables that a collection will read. Call it before the world is stopped, when
    /// memory is short. The program does not use the tables, so they are among the first pages that
    /// the kernel evicts.
    pub fn ask_for_tables(&self, central: &Central) {
        central.check(self);
        let tables = self.side.read_by_collections(central.committed());
        let summaries = self.summaries.range(&self.side);
        for table in tables.into_iter().chain([summaries]) {
            let start = table.start / TABLE_PAGE * TABLE_PAGE;
            self.side
                .os()
                .will_need(start..table.end.next_multiple_of(TABLE_PAGE));
        }
    }

    /// Has the kernel forget that the collector accessed the present pages. Otherwise it would
    /// conclude that the program uses all of them, and find nothing to evict. Pages that the
    /// program does use are accessed again soon.
    pub fn cool(&self, central: &Central) {
        central.check(self);
        let used = |at: &usize| {
            let it = self.side.descriptor(Superpage(*at as u32));
            it.usage() != Use::Free && !it.has(flag::ABSENT)
        };
        let address = |at: usize| self.side.address(Superpage(at as u32));
        let mut start = None;
        for at in 0..=central.committed() {
            let counts = at < central.committed() && used(&at);
            match start {
                None if counts => start = Some(at),
                Some(first) if !counts => {
                    self.side.os().cool(address(first)..address(at));
                    start = None;
                }
                _ => {}
            }
        }
    }

    /// Called in a child of fork: drops what refers to the parent's pages.
    pub fn forked(&self) {
        self.side.os().forked();
    }

    /// Finds out where the heap's pages are, and which were written to since they were armed. All
    /// threads are stopped and their bins retired; the marks are still those of the previous
    /// collection.
    pub(crate) fn look(&self, central: &mut Central, what: Look) -> Residency {
        let mut found = Residency::default();
        let committed = central.committed();
        let side = &self.side;
        let all = side.heap()..side.heap() + committed * SUPERPAGE;
        for at in 0..committed as u32 {
            let it = side.descriptor(Superpage(at));
            let said = flag::ABSENT | flag::SUMMARISED | flag::PENDING;
            if it.flags() & said != 0 {
                it.lower(said);
            }
        }
        // If the kernel does not say, every superpage counts as present: that costs page faults,
        // but loses no object.
        let _ = side.os().swapped(all.clone(), &mut |run| {
            for superpage in self.superpages(&run) {
                found.absent += usize::from(side.descriptor(superpage).raise(flag::ABSENT));
            }
        });
        if self.stress.is_on() {
            for at in (0..committed as u32).filter(|_| self.stress.takes_away()) {
                found.absent += usize::from(side.descriptor(Superpage(at)).raise(flag::ABSENT));
            }
        }
        if self.tracking.means() == Means::Resizing {
            for at in 0..committed as u32 {
                side.descriptor(Superpage(at)).lower(flag::ABSENT);
            }
        } else if found.absent > 0 {
            self.tracking.begin(side, self.range());
        }
        let first = !self.looked.swap(false, Relaxed);
        self.note_ages(committed, first, first && !what.young, &mut found);
        if self.summary_bytes() > 0 || self.tracking.is_any_armed() {
            bits::fill(side.replayed(committed), 0, committed, false);
            self.drop_outdated(central, all, what.complete, &mut found);
            found.summarised = self.trust_summaries(committed);
        }
        self.stress.evict_some(side, committed);
        found
    }

    /// At the beginning of a step: finds what the kernel evicted since the first look of the
    /// collection. All threads are stopped.
    pub(crate) fn look_again(&self, central: &Central) {
        let side = &self.side;
        let all = side.heap()..side.heap() + central.committed() * SUPERPAGE;
        let _ = side.os().swapped(all, &mut |run| {
            for superpage in self.superpages(&run) {
                side.descriptor(superpage).raise(flag::ABSENT);
            }
        });
        if self.stress.is_on() {
            for at in (0..central.committed() as u32).filter(|_| self.stress.takes_away()) {
                side.descriptor(Superpage(at)).raise(flag::ABSENT);
            }
        }
    }

    /// Notes what went to swap and what came back since the last collection, if this is the `first`
    /// look of one. Makes armed superpages one collection older, if `older`.
    fn note_ages(&self, committed: usize, first: bool, older: bool, found: &mut Residency) {
        for at in 0..committed as u32 {
            let it = self.side.descriptor(Superpage(at));
            let old = it.age.load(Relaxed);
            let hold = it.hold.load(Relaxed);
            if older && hold > 0 {
                it.hold.store(hold - 1, Relaxed);
            }
            let new = match (it.has(flag::ABSENT), old) {
                (true, age::GONE_PARTLY) if first => age::GONE,
                (true, age::GONE | age::GONE_WRITTEN | age::GONE_PARTLY) => continue,
                (true, _) => {
                    found.evicted += usize::from(it.usage() != Use::Free);
                    // Whether it was written to before it was evicted, the query for writes tells
                    // next.
                    if old == age::UNKNOWN {
                        age::GONE_WRITTEN
                    } else {
                        age::GONE
                    }
                }
                (false, age::GONE | age::GONE_WRITTEN | age::GONE_PARTLY) => {
                    if old == age::GONE_PARTLY {
                        self.summaries.drop_of(&self.side, Superpage(at));
                    }
                    found.returned += usize::from(it.usage() != Use::Free);
                    it.hold.store(HOLD, Relaxed);
                    age::UNKNOWN
                }
                (false, age::UNKNOWN | age::OLDEST) => continue,
                (false, old) => old + u8::from(older),
            };
            it.age.store(new, Relaxed);
        }
    }

    /// Makes superpages young that were written to, and drops their summaries.
    fn drop_outdated(
        &self,
        central: &Central,
        all: Range<usize>,
        complete: bool,
        found: &mut Residency,
    ) {
        let told = self.side.os().written(all, &mut |run| {
            for superpage in self.superpages(&run) {
                let it = self.side.descriptor(superpage);
                found.written += usize::from(!it.is_young());
                it.forget_age();
                if it.summary.load(Relaxed) != 0 {
                    self.summaries.drop_of(&self.side, superpage);
                    found.dropped += 1;
                }
            }
        });
        if told.is_err() {
            self.forget_ages(central.committed());
        }
        if told.is_err() || complete {
            self.summaries.drop_all(&self.side, central.committed());
        }
    }

    fn forget_ages(&self, committed: usize) {
        for at in 0..committed as u32 {
            let it = self.side.descriptor(Superpage(at));
            it.forget_age();
        }
    }

    /// Marks absent superpages with a summary as `SUMMARISED`, and returns how many there are.
    fn trust_summaries(&self, committed: usize) -> usize {
        let mut count = 0;
        for at in 0..committed as u32 {
            let it = self.side.descriptor(Superpage(at));
            if it.summary.load(Relaxed) != 0
                && it.age.load(Relaxed) != age::GONE_PARTLY
                && it.has(flag::ABSENT)
                && it.usage() != Use::Free
            {
                it.raise(flag::SUMMARISED);
                count += 1;
            }
        }
        count
    }

    /// Superpages that a range of addresses touches.
    fn superpages(&self, range: &Range<usize>) -> impl Iterator<Item = Superpage> + use<> {
        let first = self.side.superpage(range.start).0;
        let end = self.side.superpage(range.end - 1).0 + 1;
        (first..end).map(Superpage)
    }
}
