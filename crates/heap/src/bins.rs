//! Where threads allocate small objects. A thread allocates from its own bins, one per kind and class, by
//! moving a cursor through a hole.

use crate::address::{Slot, Superpage};
use crate::bits;
use crate::class::{CLASSES, Class};
use crate::descriptor::{Use, flag};
use crate::heap::Heap;
use crate::kind::KindId;
use crate::sparse::Table;
use std::alloc::{alloc_zeroed, handle_alloc_error};
use std::sync::atomic::Ordering::Relaxed;

/// Where one thread allocates objects of one kind and class. Only that thread changes it, except
/// that a collection empties it. An all-zero bin is empty.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bin {
    /// The current hole: the address of the next object, and the end of the hole.
    cursor: usize,
    limit: usize,
    /// The address of the first freed slot, or 0. Freed slots are linked through their first words.
    pub(crate) freed: usize,
    /// The superpage that this bin has a part of, plus 1; 0 for none.
    pub(crate) superpage: u32,
    /// The bin has the holes of these slots: from the first that was not examined yet, to the end of
    /// the part.
    pub(crate) next: u16,
    pub(crate) until: u16,
    /// `part`: bytes that the last part was to have. `uncounted`: bytes of its free slots; they count
    /// as allocated when the bin has handed them out, and the next part is due.
    pub(crate) part: u16,
    pub(crate) uncounted: u16,
    /// Freed slots that were handed out again, and are not counted as allocated yet.
    pub(crate) again: u16,
}

impl Bin {
    /// Takes the place of the next object from the current hole. `None` if the hole is used up.
    /// `bytes` is the slot size of the bin's class.
    ///
    /// This thread must not be stopped inside this call: see [`Bins`].
    #[inline(always)]
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let at = self.cursor;
        let end = at + bytes;
        if end > self.limit {
            return None;
        }
        self.cursor = end;
        Some(at)
    }

    #[inline]
    pub(crate) fn open(&mut self, start: usize, bytes: usize) {
        self.cursor = start;
        self.limit = start + bytes;
    }

    /// Bytes of its part that it did not hand out yet.
    fn left(&self, heap: &Heap, class: Class) -> usize {
        let unexamined = self.superpage.checked_sub(1).map_or(0, |number| {
            let marks = heap.side.marks(Superpage(number));
            bits::clear(marks, usize::from(self.next), usize::from(self.until))
        });
        (self.limit - self.cursor) + unexamined * class.bytes()
    }

    /// Counts what it handed out since it last counted.
    fn count(&mut self, heap: &Heap, class: Class) {
        let taken = usize::from(self.uncounted).saturating_sub(self.left(heap, class));
        self.uncounted -= taken as u16;
        heap.add_allocated(taken);
        self.count_again(heap, class);
    }

    /// Counts the freed slots that it handed out again.
    pub(crate) fn count_again(&mut self, heap: &Heap, class: Class) {
        let count = usize::from(std::mem::take(&mut self.again));
        heap.add_allocated(count * class.bytes());
    }
}

/// All bins of one thread, for one heap. All-zero bins are empty. They hold addresses of the heap that filled
/// them: no other heap is to be called with them.
///
/// A collection empties the bins of every thread ([`Bins::retire`]), so no thread may be stopped while it
/// uses one: the front end lets it leave [`Bin::take`], [`Heap::next_hole`] and [`Heap::free`] first.
/// [`Heap::refill`] and other functions that take [`Central`](crate::Central) cannot be under way when the
/// world is stopped, because whoever stops it holds [`Central`](crate::Central).
#[repr(C)]
#[derive(Default)]
pub struct Bins {
    /// The bins of the first kinds, by kind and class.
    first: [Row; FIRST],
    /// A bit for each of these kinds whose bins got a part of a superpage since the last collection.
    refilled: u8,
    /// The bins of all other kinds, as far as they were used. It changes under the lock of
    /// [`Central`](crate::Central) only.
    more: Option<Box<Table<Bin>>>,
    /// The address of the first freed slot whose bin was never used, or 0; linked as those of a bin. The next
    /// collection finds them.
    strays: usize,
}

/// The bins of one kind.
#[derive(Debug)]
struct Row([Bin; CLASSES]);

impl Default for Row {
    fn default() -> Row {
        Row(std::array::from_fn(|_| Bin::default()))
    }
}

/// For this many kinds the bins are at a fixed place. Where the kind is known at compile time, no instruction
/// looks for the bin.
const FIRST: usize = 8;

impl Bins {
    /// Empty bins on the heap of `malloc`. They are built in place: the stacks of the program's
    /// threads may be smaller than this.
    pub fn boxed() -> Box<Bins> {
        let layout = std::alloc::Layout::new::<Bins>();
        // SAFETY: memory of this size; all zero are empty ones, and the box frees what it was made of.
        unsafe {
            let place = alloc_zeroed(layout);
            if place.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(place.cast())
        }
    }

    /// The bin for objects of a kind and a class. `None` if it was never used.
    #[inline(always)]
    pub fn bin(&mut self, kind: KindId, class: Class) -> Option<&mut Bin> {
        match usize::from(kind.0) {
            kind if kind < FIRST => Some(&mut self.first[kind].0[usize::from(class.0)]),
            _ => self.more.as_mut()?.get_mut(kind, class),
        }
    }

    /// The bin for objects of a kind and a class, for [`Heap::refill`]. The caller holds
    /// [`Central`](crate::Central).
    pub fn bin_to_refill(&mut self, kind: KindId, class: Class) -> &mut Bin {
        match usize::from(kind.0) {
            kind if kind < FIRST => {
                self.refilled |= 1 << kind;
                &mut self.first[kind].0[usize::from(class.0)]
            }
            _ => self.more.get_or_insert_default().make(kind, class),
        }
    }

    /// The list of freed slots of a kind and a class: the address of the first one, or 0.
    #[inline]
    pub(crate) fn freed(&mut self, kind: KindId, class: Class) -> &mut usize {
        match usize::from(kind.0) {
            kind if kind < FIRST => &mut self.first[kind].0[usize::from(class.0)].freed,
            _ => {
                let more = self.more.as_mut();
                let bin = more.and_then(|more| more.get_mut(kind, class));
                bin.map_or(&mut self.strays, |bin| &mut bin.freed)
            }
        }
    }

    /// Each bin with its class.
    fn each(&self) -> impl Iterator<Item = (Class, &Bin)> {
        let first = self.first.iter();
        let more = self.more.iter().flat_map(|more| more.each());
        first.flat_map(|row| Class::all().zip(&row.0)).chain(more)
    }

    /// The same, to change them.
    fn each_mut(&mut self) -> impl Iterator<Item = (Class, &mut Bin)> {
        let first = self.first.iter_mut();
        let more = self.more.iter_mut().flat_map(|more| more.each_mut());
        first
            .flat_map(|row| Class::all().zip(&mut row.0))
            .chain(more)
    }

    /// Counts what the bins handed out as allocated ([`Heap::allocated`]).
    pub fn count(&mut self, heap: &Heap) {
        let refilled = self.refilled;
        let first = self.first.iter_mut().enumerate();
        let first = first.filter(|(kind, _)| refilled >> kind & 1 == 1);
        let first = first.flat_map(|(_, row)| Class::all().zip(&mut row.0));
        let more = self.more.iter_mut().flat_map(|more| more.each_mut());
        for (class, bin) in first.chain(more).filter(|(_, bin)| bin.uncounted > 0) {
            bin.count(heap, class);
        }
    }

    /// Empties the bins of a thread that ends, and frees them. Slots that they did not hand out are lost
    /// until the next collection, so they count as allocated.
    pub fn abandon(&mut self, heap: &Heap) {
        for (_, bin) in self.each_mut() {
            heap.add_allocated(std::mem::take(&mut bin.uncounted).into());
        }
        self.retire(heap);
        self.more = None;
    }

    /// Empties all bins. The sweep of the collection that begins with this finds again what was
    /// not handed out.
    pub fn retire(&mut self, heap: &Heap) {
        self.refilled = 0;
        for (class, bin) in self.each_mut() {
            // Most bins were never used, and take no memory until they are written to.
            if bin.limit == 0 && bin.freed == 0 && bin.superpage == 0 {
                continue;
            }
            bin.count(heap, class);
            if bin.cursor < bin.limit {
                heap.give_up_hole(bin.cursor, bin.limit);
            }
            if let Some(number) = bin.superpage.checked_sub(1) {
                heap.leave(Superpage(number));
            }
            heap.give_up_freed(bin.freed);
            *bin = Bin::default();
        }
        heap.give_up_freed(std::mem::take(&mut self.strays));
    }

    /// Whether a marked slot is uncollectable only because it is a part of the hole that one of these
    /// bins has open. The owner of the bins may run; the caller holds [`Central`](crate::Central).
    pub fn holds(&self, heap: &Heap, slot: Slot) -> bool {
        /// How often a hole is read at most while its owner changes it.
        const READS: usize = 16;
        let it = heap.side.descriptor(slot.superpage);
        if !it.has(flag::UNCOLLECTABLE) || it.usage() != Use::Small {
            return false;
        }
        let (kind, class) = (KindId(it.kind.load(Relaxed)), Class(it.class.load(Relaxed)));
        let bin = match self.first.get(usize::from(kind.0)) {
            Some(row) => Some(&row.0[usize::from(class.0)]),
            None => self.more.as_ref().and_then(|more| more.get(kind, class)),
        };
        let Some(bin) = bin.map(std::ptr::from_ref) else {
            return false;
        };
        // SAFETY: fields of a bin. The owner may change them now, and then either value will do.
        let read = || unsafe {
            let cursor = (&raw const (*bin).cursor).read_volatile();
            let limit = (&raw const (*bin).limit).read_volatile();
            let again = (&raw const (*bin).cursor).read_volatile();
            (cursor == again).then_some(cursor..limit)
        };
        // Not the beginning of one hole with the end of another.
        let hole = std::iter::repeat_with(read)
            .take(READS)
            .find_map(|hole| hole);
        hole.is_some_and(|hole| {
            hole.contains(&heap.start(slot)) && heap.side.superpage(hole.end - 1) == slot.superpage
        })
    }

    /// Calls `each` with every slot that these bins would hand out next without the lock, except
    /// freed ones.
    pub fn each_free(&self, heap: &Heap, mut each: impl FnMut(Slot)) {
        for (class, bin) in self.each() {
            for start in (bin.cursor..bin.limit).step_by(class.bytes()) {
                if let Some((slot, _)) = heap.side.resolve(start) {
                    each(slot);
                }
            }
            let Some(number) = bin.superpage.checked_sub(1) else {
                continue;
            };
            let superpage = Superpage(number);
            let marks = heap.side.marks(superpage);
            let (next, until) = (usize::from(bin.next), usize::from(bin.until));
            for (from, to) in bits::runs(marks, next, until, false) {
                for index in from..to {
                    let index = index as u16;
                    each(Slot { superpage, index });
                }
            }
        }
    }
}
