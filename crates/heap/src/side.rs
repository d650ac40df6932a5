//! Metadata beside the heap: tables with one entry per superpage, one after the other in one range.
//!
//! [`SPECS`] lists all of them; sizes, offsets, and the share of the heap that metadata takes
//! follow from it. Each table has addresses for the whole reserved heap, but is committed only for
//! the committed part of the heap, and a bit further: committed memory counts against limits, and
//! is populated if a program locks its memory.

use crate::address::{GRANULE, GRANULES, SUPERPAGE, Slot, Superpage};
use crate::bits;
use crate::class::{Class, slot_at};
use crate::descriptor::{Descriptor, Use, age, flag};
use crate::os::Os;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The most bytes of a superpage's summary: 1.6 % of a superpage.
pub(crate) const SUMMARY: usize = 256;

/// One table.
struct Spec {
    name: &'static str,
    /// Bits of the table that describe one superpage.
    bits: usize,
    /// The superpages for which it takes memory.
    used_by: UsedBy,
}

/// The superpages for which a table takes memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsedBy {
    /// Every superpage that was ever used.
    All,
    /// Superpages in swap, and those that they refer to.
    Evicted,
}

/// Indices of the tables in [`SPECS`].
const DESCRIPTORS: usize = 0;
const MARKS: usize = 1;
const FREE: usize = 2;
const BOOKMARKS: usize = 3;
const REPLAYED: usize = 4;
const SUMMARIES: usize = 5;

/// Every table, in the order of their addresses. That of summaries is the last: the others of a small heap
/// are one mapping.
const SPECS: [Spec; 6] = [
    Spec {
        name: "descriptors",
        bits: size_of::<Descriptor>() * 8,
        used_by: UsedBy::All,
    },
    Spec {
        name: "mark bits",
        bits: GRANULES,
        used_by: UsedBy::All,
    },
    Spec {
        name: "free superpages",
        bits: 1,
        used_by: UsedBy::All,
    },
    Spec {
        name: "bookmark bits",
        bits: GRANULES,
        used_by: UsedBy::Evicted,
    },
    Spec {
        name: "replayed bookmarks",
        bits: 1,
        used_by: UsedBy::Evicted,
    },
    Spec {
        name: "summaries",
        bits: SUMMARY * 8,
        used_by: UsedBy::Evicted,
    },
];

/// Tables start at multiples of this, in bytes: a multiple of the page size of every supported
/// kernel.
const ALIGNMENT: usize = 64 << 10;

const fn table_bytes(table: usize, superpages: usize) -> usize {
    (SPECS[table].bits * superpages)
        .div_ceil(8)
        .next_multiple_of(ALIGNMENT)
}

const fn offset(table: usize, superpages: usize) -> usize {
    let (mut at, mut sum) = (0, 0);
    while at < table {
        sum += table_bytes(at, superpages);
        at += 1;
    }
    sum
}

/// Bytes of all tables for a heap of `superpages` superpages.
pub(crate) const fn bytes(superpages: usize) -> usize {
    offset(SPECS.len(), superpages)
}

/// The tables: their names, their bits per superpage, and the superpages for which they take
/// memory.
pub(crate) fn specs() -> impl Iterator<Item = (&'static str, usize, UsedBy)> {
    SPECS
        .iter()
        .map(|spec| (spec.name, spec.bits, spec.used_by))
}

/// The mark bits of one superpage, by slot.
pub(crate) type Marks = [AtomicU64; GRANULES / 64];

/// The smallest useful heap, in bytes of addresses.
pub(crate) const SMALLEST: usize = 16 << 20;

/// The alignment of the first table, bytes.
const START: usize = 2 << 20;

/// The tables grow for at least this many superpages at once, if that is possible: 64 MiB.
const AHEAD: usize = (64 << 20) / SUPERPAGE;

/// The least that is committed of the table of summaries at once, in bytes.
const STEP: usize = 256 << 10;

/// The addresses of a heap and of the tables beside it, and the kernel that gives memory for them.
pub(crate) struct Side {
    os: Arc<dyn Os>,
    descriptors: *const Descriptor,
    marks: *const Marks,
    free: *const AtomicU64,
    bookmarks: *const Marks,
    summaries: *const u8,
    replayed: *const AtomicU64,
    /// The address of the first table.
    start: usize,
    /// The address of the heap.
    heap: usize,
    /// Superpages of the reserved heap.
    superpages: usize,
    /// Superpages for which the tables are committed. Only the holder of
    /// [`Central`](crate::Central) changes it, as `reach`.
    known: AtomicUsize,
    /// Bytes of the heap that are committed: no object lies beyond.
    reach: AtomicUsize,
    /// Bytes of the table of summaries that are committed. Changed under the lock of their store.
    summarised: AtomicUsize,
}

impl Drop for Side {
    fn drop(&mut self) {
        let (start, end) = (self.start, self.heap + self.superpages * SUPERPAGE);
        let summaries = self.summaries as usize;
        let known = self.known.load(Relaxed);
        // SAFETY: all that refers to these addresses borrows this value, or is used only together
        // with it.
        unsafe {
            self.uncommit(&self.tables(0, known));
            self.uncommit(&[
                summaries..summaries + self.summarised.load(Relaxed),
                self.range(),
            ]);
            self.os.release(start..end);
        }
    }
}

// SAFETY: the tables hold atomics only, and exist as long as this value.
unsafe impl Send for Side {}
// SAFETY: as above.
unsafe impl Sync for Side {}

impl Side {
    /// Reserves one range for the tables and, after them, a heap of `heap` bytes. Some of the tables
    /// are committed from the start: a process that has no mappings left can extend a committed range,
    /// but cannot begin another one.
    ///
    /// # Errors
    /// There are not as many addresses, or the kernel gives no memory for the tables of the smallest
    /// heap.
    pub(crate) fn reserve(os: Arc<dyn Os>, heap: usize) -> io::Result<Side> {
        let superpages = heap / SUPERPAGE;
        let metadata = bytes(superpages);
        let start = os.reserve(metadata + heap, START)?;
        let table = |table| (start + offset(table, superpages)) as *const u8;
        // Dropped if the kernel refuses the first tables.
        let side = Side {
            descriptors: table(DESCRIPTORS).cast(),
            marks: table(MARKS).cast(),
            free: table(FREE).cast(),
            bookmarks: table(BOOKMARKS).cast(),
            summaries: table(SUMMARIES),
            replayed: table(REPLAYED).cast(),
            os,
            start,
            heap: start + metadata,
            superpages,
            known: AtomicUsize::new(0),
            reach: AtomicUsize::new(0),
            summarised: AtomicUsize::new(0),
        };
        side.commit(SMALLEST / SUPERPAGE)?;
        Ok(side)
    }

    /// Makes the system calls.
    pub(crate) fn os(&self) -> &Arc<dyn Os> {
        &self.os
    }

    /// Commits the tables for this many superpages, and for more where that is cheap. False if the
    /// kernel refuses. The caller holds [`Central`](crate::Central).
    pub(crate) fn cover(&self, superpages: usize) -> bool {
        let known = self.known.load(Relaxed);
        let much = superpages.max(known + known / 8).next_multiple_of(AHEAD);
        let much = much.min(self.superpages);
        let commits = |to: usize| self.commit(to).is_ok();
        superpages <= known || [much, superpages].into_iter().any(commits)
    }

    /// Commits the tables for the first `superpages` superpages. The table of summaries is left to
    /// its store, which knows how much of it is used.
    fn commit(&self, superpages: usize) -> io::Result<()> {
        let parts = self.tables(self.known.load(Relaxed), superpages);
        for (at, part) in parts.iter().enumerate() {
            if part.is_empty() {
                continue;
            }
            if let Err(why) = self.os.commit(part.clone()) {
                // SAFETY: committed just now, and not used yet.
                unsafe { self.uncommit(&parts[..at]) };
                return Err(why);
            }
        }
        self.known.store(superpages, Relaxed);
        Ok(())
    }

    /// # Safety
    /// Nobody uses an address in these ranges.
    unsafe fn uncommit(&self, ranges: &[Range<usize>]) {
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            // SAFETY: the caller's.
            unsafe { self.os.uncommit(range.clone()) };
        }
    }

    /// The parts of all tables but that of summaries which describe the superpages `from..to`.
    fn tables(&self, from: usize, to: usize) -> [Range<usize>; 5] {
        [DESCRIPTORS, MARKS, FREE, BOOKMARKS, REPLAYED].map(|table| {
            let start = self.start + offset(table, self.superpages);
            start + table_bytes(table, from)..start + table_bytes(table, to)
        })
    }

    /// Makes the first `bytes` bytes of the table of summaries usable, and more where that is cheap.
    /// False if there is no room. The caller holds the lock of their store.
    pub(crate) fn cover_summaries(&self, bytes: usize) -> bool {
        let (committed, all) = (self.summarised.load(Relaxed), self.superpages * SUMMARY);
        if bytes <= committed || bytes > all {
            return bytes <= committed;
        }
        let much = bytes.max(committed + committed / 8);
        let end = much.next_multiple_of(STEP).min(all);
        let start = self.summaries as usize;
        let commits = self.os.commit(start + committed..start + end).is_ok();
        if commits {
            self.summarised.store(end, Relaxed);
        }
        commits
    }

    /// The first byte of the tables.
    pub(crate) fn metadata(&self) -> usize {
        self.start
    }

    /// The heap's first byte.
    #[inline]
    pub(crate) fn heap(&self) -> usize {
        self.heap
    }

    /// Superpages of the reserved heap.
    #[inline]
    pub(crate) fn superpages(&self) -> usize {
        self.superpages
    }

    /// The addresses of the committed part of the heap.
    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        self.heap..self.heap + self.reach.load(Relaxed)
    }

    /// The word that holds how many bytes of the heap are committed.
    pub(crate) fn reach(&self) -> &AtomicUsize {
        &self.reach
    }

    #[inline]
    pub(crate) fn descriptor(&self, superpage: Superpage) -> &Descriptor {
        debug_assert!(superpage.index() < self.superpages);
        // SAFETY: superpages are numbered below `superpages`, the table is that long, and the
        // caller knows that the table is committed for this one.
        unsafe { &*self.descriptors.add(superpage.index()) }
    }

    #[inline]
    pub(crate) fn marks(&self, superpage: Superpage) -> &Marks {
        debug_assert!(superpage.index() < self.superpages);
        // SAFETY: as above.
        unsafe { &*self.marks.add(superpage.index()) }
    }

    /// The bookmarked slots of a superpage: those to which some summary refers by a group.
    pub(crate) fn bookmarks(&self, superpage: Superpage) -> &Marks {
        debug_assert!(superpage.index() < self.superpages);
        // SAFETY: as above.
        unsafe { &*self.bookmarks.add(superpage.index()) }
    }

    /// One bit for each of the first `superpages` superpages: set once all of its bookmarked slots
    /// were reached in this collection.
    pub(crate) fn replayed(&self, superpages: usize) -> &[AtomicU64] {
        // SAFETY: as `free`.
        unsafe { std::slice::from_raw_parts(self.replayed, superpages.div_ceil(64)) }
    }

    /// The first byte of the summaries' table, and its bytes.
    pub(crate) fn summaries(&self) -> (*mut u8, usize) {
        (self.summaries.cast_mut(), self.superpages * SUMMARY)
    }

    /// One bit for each of the first `superpages` superpages, for which the tables must be
    /// committed: set if it is committed and free. Padded with zeros to a whole word.
    pub(crate) fn free(&self, superpages: usize) -> &[AtomicU64] {
        // SAFETY: the table has a bit for each, rounded up to far more than a word.
        unsafe { std::slice::from_raw_parts(self.free, superpages.div_ceil(64)) }
    }

    /// The address ranges of the tables that a collection reads, for the first `superpages`
    /// superpages.
    pub(crate) fn read_by_collections(&self, superpages: usize) -> [Range<usize>; 3] {
        let part = |start: usize, table: usize| {
            let bytes = SPECS[table].bits * superpages / 8;
            start..start + bytes
        };
        [
            part(self.descriptors as usize, DESCRIPTORS),
            part(self.marks as usize, MARKS),
            part(self.bookmarks as usize, BOOKMARKS),
        ]
    }

    /// The first byte of a superpage.
    #[inline]
    pub(crate) fn address(&self, superpage: Superpage) -> usize {
        self.heap + superpage.index() * SUPERPAGE
    }

    /// The superpage that an address of the heap is in.
    #[inline]
    pub(crate) fn superpage(&self, address: usize) -> Superpage {
        Superpage(((address - self.heap) / SUPERPAGE) as u32)
    }

    /// Prefetches what [`resolve`](Side::resolve) and a mark will read. `address` must be in the
    /// heap.
    #[inline(always)]
    pub(crate) fn prefetch(&self, address: usize) {
        let at = (address - self.heap) / SUPERPAGE;
        crate::prefetch::prefetch(self.descriptors.wrapping_add(at) as usize);
        // Classes from 32 bytes up have all their mark bits in the first cache line.
        crate::prefetch::prefetch(self.marks.wrapping_add(at) as usize);
    }

    /// The slot that an address points into, at its start or inside. `None` outside the heap, and
    /// where no object can be.
    #[inline]
    pub(crate) fn slot(&self, address: usize) -> Option<Slot> {
        if !self.range().contains(&address) {
            return None;
        }
        self.resolve(address).map(|(slot, _)| slot)
    }

    /// The slot that an address of the committed heap is in, and its superpage's flags. `None` where
    /// no slot is: in a free superpage, in the rest at the end of a superpage, behind the end of a
    /// large object.
    #[inline]
    pub(crate) fn resolve(&self, address: usize) -> Option<(Slot, u16)> {
        let superpage = self.superpage(address);
        let it = self.descriptor(superpage);
        if it.usage() == Use::Small {
            let index = slot_at(address % SUPERPAGE / GRANULE, it.reciprocal.load(Relaxed));
            let index = index as u16;
            return (index < it.slots.load(Relaxed))
                .then(|| (Slot { superpage, index }, it.flags()));
        }
        self.resolve_large(address, superpage)
    }

    #[cold]
    fn resolve_large(&self, address: usize, superpage: Superpage) -> Option<(Slot, u16)> {
        let it = self.descriptor(superpage);
        let head = match it.usage() {
            Use::Head => superpage,
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            Use::Free | Use::Small => return None,
        };
        let flags = self.descriptor(head).flags();
        if head != superpage && flags & flag::FIRST_ONLY != 0 {
            return None;
        }
        let slot = Slot {
            superpage: head,
            index: 0,
        };
        (address < self.start(slot) + self.size(slot)).then_some((slot, flags))
    }

    /// The first byte of the object that an address lies in. The address is in a superpage in use, and not in
    /// the rest at its end.
    pub(crate) fn object(&self, address: usize) -> usize {
        let superpage = self.superpage(address);
        match self.descriptor(superpage).usage() {
            Use::Small => self
                .resolve(address)
                .map_or(address, |(slot, _)| self.start(slot)),
            _ => self.address(self.head(superpage)),
        }
    }

    /// The first byte of a slot.
    #[inline]
    pub(crate) fn start(&self, slot: Slot) -> usize {
        let granules = if slot.index == 0 {
            0
        } else {
            usize::from(slot.index)
                * usize::from(self.descriptor(slot.superpage).granules.load(Relaxed))
        };
        self.address(slot.superpage) + granules * GRANULE
    }

    /// Bytes of a slot.
    #[inline]
    pub(crate) fn size(&self, slot: Slot) -> usize {
        let it = self.descriptor(slot.superpage);
        let granules = usize::from(it.granules.load(Relaxed));
        if it.usage() == Use::Small {
            granules * GRANULE
        } else {
            it.extent.load(Relaxed) as usize * SUPERPAGE - granules * GRANULE
        }
    }

    #[inline]
    pub(crate) fn is_marked(&self, slot: Slot) -> bool {
        let word = &self.marks(slot.superpage)[usize::from(slot.index) / 64];
        word.load(Relaxed) >> (slot.index % 64) & 1 != 0
    }

    /// Marks a slot. True if it was not marked before. `SHARED`: other markers may run at the same
    /// time.
    #[inline(always)]
    pub(crate) fn mark<const SHARED: bool>(&self, slot: Slot) -> bool {
        let word = &self.marks(slot.superpage)[usize::from(slot.index) / 64];
        let bit = 1 << (slot.index % 64);
        let before = word.load(Relaxed);
        if before & bit != 0 {
            return false;
        }
        if SHARED {
            return word.fetch_or(bit, Relaxed) & bit == 0;
        }
        word.store(before | bit, Relaxed);
        true
    }

    pub(crate) fn unmark(&self, slot: Slot) {
        let word = &self.marks(slot.superpage)[usize::from(slot.index) / 64];
        word.fetch_and(!(1 << (slot.index % 64)), Relaxed);
    }

    /// The first superpage of the large object that this superpage holds a part of; the superpage
    /// itself if it holds small objects.
    pub(crate) fn head(&self, superpage: Superpage) -> Superpage {
        let it = self.descriptor(superpage);
        match it.usage() {
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            _ => superpage,
        }
    }

    /// The flags of the objects in a superpage, or of the object that it holds a part of.
    pub(crate) fn flags_of_object(&self, superpage: Superpage) -> u16 {
        self.descriptor(self.head(superpage)).flags()
    }

    /// Whether a superpage is armed and was not written to at the last look.
    pub(crate) fn is_armed(&self, superpage: Superpage) -> bool {
        let age = self.descriptor(superpage).age.load(Relaxed);
        (age::ARMED..=age::OLDEST).contains(&age)
    }

    /// Whether a superpage holds a marked object, or a part of one.
    pub(crate) fn is_alive(&self, superpage: Superpage) -> bool {
        match self.descriptor(superpage).usage() {
            Use::Free => false,
            Use::Small => self.has_run(superpage, true),
            Use::Head | Use::Tail => self.is_marked(Slot {
                superpage: self.head(superpage),
                index: 0,
            }),
        }
    }

    /// Whether threads can no longer allocate in a superpage.
    pub(crate) fn is_full(&self, superpage: Superpage) -> bool {
        match self.descriptor(superpage).usage() {
            Use::Free => false,
            Use::Small => !self.has_run(superpage, false),
            Use::Head | Use::Tail => true,
        }
    }

    /// Whether a superpage has a slot whose mark equals `marked`.
    fn has_run(&self, superpage: Superpage, marked: bool) -> bool {
        let slots = usize::from(self.descriptor(superpage).slots.load(Relaxed));
        bits::first(self.marks(superpage), 0, slots, marked).is_some()
    }

    /// Turns a free superpage into one of `class`.
    pub(crate) fn make_small(&self, superpage: Superpage, class: Class) {
        let it = self.descriptor(superpage);
        it.class.store(class.0, Relaxed);
        it.slots.store(class.slots() as u16, Relaxed);
        it.granules.store(class.granules() as u16, Relaxed);
        it.reciprocal.store(class.reciprocal(), Relaxed);
        it.set_usage(Use::Small);
    }

    /// Turns the free superpages from `head` on into the place of an object of `bytes` bytes.
    pub(crate) fn make_large(&self, head: Superpage, bytes: usize) {
        let extent = bytes.div_ceil(SUPERPAGE);
        for distance in 1..extent as u32 {
            let tail = self.descriptor(Superpage(head.0 + distance));
            tail.extent.store(distance, Relaxed);
            tail.set_usage(Use::Tail);
        }
        let it = self.descriptor(head);
        let rest = (extent * SUPERPAGE - bytes) / GRANULE;
        it.granules.store(rest as u16, Relaxed);
        it.extent.store(extent as u32, Relaxed);
        it.set_usage(Use::Head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_at_most_two_percent_of_the_heap() {
        let share = |tables: &[&str]| {
            let bits: usize = specs()
                .filter(|(name, ..)| tables.contains(name))
                .map(|(_, bits, _)| bits)
                .sum();
            bits as f64 / (SUPERPAGE * 8) as f64
        };
        assert!(share(&["descriptors", "mark bits", "free superpages"]) <= 0.01);
        assert!(
            share(&[
                "descriptors",
                "mark bits",
                "free superpages",
                "bookmark bits"
            ]) <= 0.02
        );
        assert!(share(&["summaries"]) <= 0.016);
    }

    #[test]
    fn tables_do_not_overlap() {
        for superpages in [1, 63, 64, 1000, 1 << 20] {
            for (table, spec) in SPECS.iter().enumerate() {
                let end = offset(table, superpages) * 8 + spec.bits * superpages;
                assert!(end <= offset(table + 1, superpages) * 8, "{}", spec.name);
            }
        }
    }
}
