//! Where the heap is when a collection begins: in memory, or in swap, and what is known of what is in swap.

use crate::address::{SUPERPAGE, Superpage};
use crate::bits;
use crate::central::Central;
use crate::heap::Heap;
use crate::side::{Use, age, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Tables are asked for in multiples of this; each begins at one.
const TABLE_PAGE: usize = 4 << 10;

/// For so many whole collections what was paged out and came back is not paged out again.
const HOLD: u8 = 8;

/// What kind of collection it is that a look begins, or that the last step of does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Summaries are not to be trusted, all that is absent will be read. Where the last step of a
    /// collection begins, only if its first did not trust any, either: of what is marked some may
    /// be for them to speak of.
    pub complete: bool,
    /// Of young objects. Nothing gets older for it: there may be several in the time of a whole
    /// one, and what lies still for that long would be paged out, and read again.
    pub young: bool,
}

/// What a look at the heap's pages found, in superpages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Residency {
    /// At least a part of it is in swap.
    pub absent: usize,
    /// Of these, those with a summary that holds.
    pub summarised: usize,
    /// Summaries that were dropped: their superpages were written to.
    pub dropped: usize,
    /// What the kernel took since the last look, without being asked to.
    pub evicted: usize,
    /// What it was asked to take, and was read since.
    pub returned: usize,
    /// What was armed, and was written to since.
    pub written: usize,
}

impl Residency {
    /// With what an earlier look found of the same collection.
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

/// What a heap does about what is in swap; less than all of it is for measuring what each part is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Means {
    /// It holds little memory when some is in swap, and reads what is absent as if it were present.
    Resizing,
    /// It reads what is absent in the order of its addresses, in each collection.
    Order,
    /// It reads what is absent once: summaries stand for it from then on.
    #[default]
    Bookmarks,
}

impl Heap {
    /// Has it use these means only, from the first collection on; the first who says so decides.
    pub fn limit_means(&self, means: Means) {
        let _ = self.means.set(means);
    }

    fn means(&self) -> Means {
        self.means.get().copied().unwrap_or_default()
    }

    /// Has writes to the heap tracked, where that is wanted and the kernel can.
    pub(crate) fn track(&self, all: Range<usize>) {
        let wanted = self.means() == Means::Bookmarks;
        self.set_tracked(wanted && self.os.track(all).is_ok());
    }

    /// Before the world is stopped for a collection, where memory is short: asks for the tables
    /// that it will read. The program does not use them, so they are among the first that the
    /// kernel evicts.
    pub fn ask_for_tables(&self, central: &Central) {
        let tables = self.side.read_by_collections(central.committed());
        let summaries = self.summaries.range(&self.side);
        for table in tables.into_iter().chain([summaries]) {
            let start = table.start / TABLE_PAGE * TABLE_PAGE;
            self.os
                .will_need(start..table.end.next_multiple_of(TABLE_PAGE));
        }
    }

    /// Has the kernel forget that the collector looked at what is here: of that it would conclude
    /// that the program uses all of it, and find nothing to evict. What the program does use it
    /// soon shows again.
    pub fn cool(&self, central: &Central) {
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
                    self.os.cool(address(first)..address(at));
                    start = None;
                }
                _ => {}
            }
        }
    }

    /// In a child of fork: pages are to be asked for anew, and what was said of the parent's holds no more.
    pub fn forked(&self) {
        self.os.forked();
    }

    /// Looks where the heap's pages are, and what of it was written to since it was armed. All
    /// threads are stopped, and their bins retired; nothing is marked yet.
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
        // Where the kernel does not say, everything is taken for present: that costs faults, and no object.
        let _ = self.os.swapped(all.clone(), &mut |run| {
            for superpage in self.superpages(&run) {
                found.absent += usize::from(side.descriptor(superpage).raise(flag::ABSENT));
            }
        });
        if self.stress.is_on() {
            for at in (0..committed as u32).filter(|_| self.stress.takes_away()) {
                found.absent += usize::from(side.descriptor(Superpage(at)).raise(flag::ABSENT));
            }
        }
        if self.means() == Means::Resizing {
            for at in 0..committed as u32 {
                side.descriptor(Superpage(at)).lower(flag::ABSENT);
            }
        } else if found.absent > 0 {
            self.track(self.reserved());
        }
        let first = !self.looked.swap(false, Relaxed);
        self.note_ages(committed, first, first && !what.young, &mut found);
        if self.summary_bytes() > 0 || self.watched.load(Relaxed) {
            bits::fill(side.replayed(committed), 0, committed, false);
            self.drop_outdated(central, all, what.complete, &mut found);
            found.summarised = self.trust_summaries(committed);
        }
        self.evict_some(committed);
        found
    }

    /// At the beginning of a step: finds what the kernel took since the look that the collection
    /// began with. All threads are stopped.
    pub(crate) fn look_again(&self, central: &Central) {
        let side = &self.side;
        let all = side.heap()..side.heap() + central.committed() * SUPERPAGE;
        let _ = self.os.swapped(all, &mut |run| {
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
    /// look of one; and makes what is armed a collection older, if it is to.
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
                    // What it was before, a look at what was written to says next.
                    if old == age::UNKNOWN {
                        age::GONE_WRITTEN
                    } else {
                        age::GONE
                    }
                }
                (false, age::GONE | age::GONE_WRITTEN | age::GONE_PARTLY) => {
                    if old == age::GONE_PARTLY {
                        self.drop_summary(Superpage(at));
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

    /// Makes young what was written to, and drops its summary.
    fn drop_outdated(
        &self,
        central: &Central,
        all: Range<usize>,
        complete: bool,
        found: &mut Residency,
    ) {
        let told = self.os.written(all, &mut |run| {
            for superpage in self.superpages(&run) {
                let it = self.side.descriptor(superpage);
                found.written += usize::from(!it.is_young());
                it.forget_age();
                if it.summary.load(Relaxed) != 0 {
                    self.drop_summary(superpage);
                    found.dropped += 1;
                }
            }
        });
        if told.is_err() {
            self.forget_ages(central.committed());
        }
        if told.is_err() || complete {
            self.drop_summaries(central.committed());
        }
    }

    fn forget_ages(&self, committed: usize) {
        for at in 0..committed as u32 {
            let it = self.side.descriptor(Superpage(at));
            it.forget_age();
        }
    }

    /// Has summaries of what is absent stand for it, and says how many.
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
