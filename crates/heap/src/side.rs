//! Metadata beside the heap: tables with one entry per superpage, one after the other in one range.
//!
//! [`SPECS`] lists all of them; sizes, offsets, and the share of the heap that metadata takes
//! follow from it. Each table has addresses for the whole reserved heap, but is committed only for
//! the committed part of the heap, and a bit further: committed memory counts against limits, and
//! is populated if a program locks its memory.

use crate::address::{GRANULE, GRANULES, SUPERPAGE, Slot, Superpage};
use crate::class::{Class, slot_at};
use crate::os::Os;
use crate::summary::SUMMARY;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

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
const SUMMARIES: usize = 4;
const REPLAYED: usize = 5;

/// Every table, in the order of their addresses.
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
        name: "summaries",
        bits: SUMMARY * 8,
        used_by: UsedBy::Evicted,
    },
    Spec {
        name: "replayed bookmarks",
        bits: 1,
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

/// What a superpage is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Use {
    /// Free, or not committed.
    Free = 0,
    /// Slots of one class.
    Small = 1,
    /// The first superpage of a large object.
    Head = 2,
    /// A later superpage of a large object.
    Tail = 3,
}

/// Flags of a superpage.
pub(crate) mod flag {
    /// Its objects hold no references.
    pub(crate) const OPAQUE: u8 = 1;
    /// The front end traces its objects.
    pub(crate) const TRACED: u8 = 2;
    /// Its objects live until they are freed.
    pub(crate) const UNCOLLECTABLE: u8 = 4;
    /// Only references to its first superpage count (of a large object).
    pub(crate) const FIRST_ONLY: u8 = 8;
    /// It was not written to since the kernel supplied it: all zero.
    pub(crate) const CLEAN: u8 = 16;
    /// It has marked objects that were not scanned. Together with `SUMMARISED`: its summary is
    /// queued to be replayed, or was.
    pub(crate) const PENDING: u8 = 32;
    /// A part of it was in swap when the collection began.
    pub(crate) const ABSENT: u8 = 64;
    /// Its summary was made before this collection, and is valid: the superpage was not written to
    /// since.
    pub(crate) const SUMMARISED: u8 = 128;
}

/// Ages of a superpage: collections since it was written to, or one of the special values.
pub(crate) mod age {
    /// It is not armed, so writes to it are not seen.
    pub(crate) const UNKNOWN: u8 = 0;
    /// It was armed after the last collection.
    pub(crate) const ARMED: u8 = 1;
    /// It was not written to from one whole collection to the next.
    pub(crate) const COLD: u8 = 2;
    /// The age stays at this value.
    pub(crate) const OLDEST: u8 = 252;
    /// As `GONE`, but its summary was made by a step, and does not cover objects marked there later
    /// in that collection.
    pub(crate) const GONE_PARTLY: u8 = 253;
    /// A part of it was in swap at the last look, or was paged out since; and it was written to
    /// since it was armed, or was never armed.
    pub(crate) const GONE_WRITTEN: u8 = 254;
    /// As `GONE_WRITTEN`, but it was not written to since it was armed.
    pub(crate) const GONE: u8 = 255;
}

/// In `next`: a bin took this superpage, and hands out its unmarked slots, or has handed out all of
/// them.
pub(crate) const TAKEN: u32 = u32::MAX;
/// In `next`: a bin took this superpage, and left before it handed out all unmarked slots.
pub(crate) const LEFT: u32 = u32::MAX - 1;

/// What is known of one superpage. All-zero means free.
///
/// Everybody reads it. Only the holder of [`Central`](crate::Central) changes it, except that
/// markers set `PENDING`.
#[repr(C, align(32))]
#[derive(Default)]
pub(crate) struct Descriptor {
    /// What it is used for ([`Use`]).
    usage: AtomicU8,
    /// The kind of its objects.
    pub(crate) kind: AtomicU8,
    /// Small: the size class of its slots.
    pub(crate) class: AtomicU8,
    /// Bits of [`flag`].
    flags: AtomicU8,
    /// Small: number of slots.
    pub(crate) slots: AtomicU16,
    /// Small: granules per slot. Head: granules of the object's last superpage that do not belong
    /// to the object.
    pub(crate) granules: AtomicU16,
    /// Small: the factor that turns a granule's number into its slot ([`slot_at`]).
    pub(crate) reciprocal: AtomicU32,
    /// Head: superpages of the object. Tail: the distance to the head, in superpages.
    pub(crate) extent: AtomicU32,
    /// The next superpage in the list that this one is in, plus 1; 0 ends the list. [`TAKEN`] or
    /// [`LEFT`] if a bin took it.
    pub(crate) next: AtomicU32,
    /// The block of its summary ([`summary`](crate::summary)); 0 for none.
    pub(crate) summary: AtomicU32,
    /// For how many collections it was not written to; see [`age`].
    pub(crate) age: AtomicU8,
    /// For how many more whole collections it is not to be paged out, because it was paged out and
    /// came back.
    pub(crate) hold: AtomicU8,
    /// Free: not 0 if it was armed when it was freed, so that each first write to a page is a fault.
    pub(crate) armed: AtomicU8,
}

impl Descriptor {
    #[inline]
    pub(crate) fn usage(&self) -> Use {
        match self.usage.load(Relaxed) {
            1 => Use::Small,
            2 => Use::Head,
            3 => Use::Tail,
            _ => Use::Free,
        }
    }

    pub(crate) fn set_usage(&self, usage: Use) {
        self.usage.store(usage as u8, Relaxed);
    }

    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags.load(Relaxed)
    }

    /// Replaces all flags. No marker may run meanwhile.
    pub(crate) fn set_flags(&self, flags: u8) {
        self.flags.store(flags, Relaxed);
    }

    /// Sets a flag. True if it was not set before.
    pub(crate) fn raise(&self, flag: u8) -> bool {
        self.flags.fetch_or(flag, Relaxed) & flag == 0
    }

    pub(crate) fn lower(&self, flag: u8) {
        self.flags.fetch_and(!flag, Relaxed);
    }

    /// Notes that the superpage was written to.
    pub(crate) fn forget_age(&self) {
        let gone = self.age.load(Relaxed) >= age::GONE_PARTLY;
        let age = if gone {
            age::GONE_WRITTEN
        } else {
            age::UNKNOWN
        };
        self.age.store(age, Relaxed);
    }

    /// Whether the superpage may have been written to since the last collection.
    pub(crate) fn is_young(&self) -> bool {
        matches!(self.age.load(Relaxed), age::UNKNOWN | age::GONE_WRITTEN)
    }
}

/// The mark bits of one superpage, by slot.
pub(crate) type Marks = [AtomicU64; GRANULES / 64];

/// The addresses of the tables and of the heap. They never change.
#[derive(Clone, Copy)]
pub(crate) struct Side {
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
}

// SAFETY: the tables hold atomics only, and live as long as the process (see `new`).
unsafe impl Send for Side {}
// SAFETY: as above.
unsafe impl Sync for Side {}

impl Side {
    /// The tables at `start` for a heap of `superpages` superpages at `heap`.
    ///
    /// # Safety
    /// At `start` are `bytes(superpages)` bytes of addresses, aligned to `ALIGNMENT`, and reserved
    /// as long as this value or a copy of it is used; nobody else uses them. Nobody asks about
    /// superpages for which the tables were not [`commit`](Side::commit)ted.
    pub(crate) unsafe fn new(start: *const u8, heap: usize, superpages: usize) -> Side {
        // SAFETY: inside of what the caller vouches for.
        let table = |table| unsafe { start.add(offset(table, superpages)) };
        Side {
            descriptors: table(DESCRIPTORS).cast(),
            marks: table(MARKS).cast(),
            free: table(FREE).cast(),
            bookmarks: table(BOOKMARKS).cast(),
            summaries: table(SUMMARIES),
            replayed: table(REPLAYED).cast(),
            start: start as usize,
            heap,
            superpages,
        }
    }

    /// Commits the tables for the first `superpages` superpages; they are committed for the first
    /// `known` already. The table of summaries is left to its store, which knows how much of it is
    /// used.
    ///
    /// # Errors
    /// The kernel gives no more memory or addresses. The tables are as long as before.
    pub(crate) fn commit(&self, os: &dyn Os, known: usize, superpages: usize) -> io::Result<()> {
        let part = |table: usize| {
            let start = self.start + offset(table, self.superpages);
            start + table_bytes(table, known)..start + table_bytes(table, superpages)
        };
        let parts = [DESCRIPTORS, MARKS, FREE, BOOKMARKS, REPLAYED].map(part);
        for (at, part) in parts.iter().enumerate() {
            if part.is_empty() {
                continue;
            }
            if let Err(why) = os.commit(part.clone()) {
                let before = parts[..at].iter().filter(|part| !part.is_empty());
                before.for_each(|part| os.uncommit(part.clone()));
                return Err(why);
            }
        }
        Ok(())
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

    /// The slot that an address of the reserved heap is in, and its superpage's flags. `None` where
    /// no slot is: in a free superpage, in the rest at the end of a superpage, behind the end of a
    /// large object.
    #[inline]
    pub(crate) fn resolve(&self, address: usize) -> Option<(Slot, u8)> {
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
    fn resolve_large(&self, address: usize, superpage: Superpage) -> Option<(Slot, u8)> {
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
