//! Small objects. A thread allocates from its own bins, one per kind and class, by moving a cursor
//! through a hole. It finds a hole in the mark bits of a superpage that belongs to the bin alone,
//! so sweeping never touches an object.

use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::bits;
use crate::central::{Central, Exhausted};
use crate::class::{CLASSES, Class, slot_at};
use crate::descriptor::{LEFT, TAKEN, Use, flag};
use crate::heap::Heap;
use crate::kind::{KINDS, Kind, KindId, Layout};
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
    freed: usize,
    /// The superpage of which this bin has a part, plus 1; 0 for none.
    superpage: u32,
    /// The bin has the holes of these slots: from the first that was not examined yet, to the end of
    /// the part.
    next: u16,
    until: u16,
    /// `part`: bytes that the last part was to have. `uncounted`: bytes of its free slots; they count
    /// as allocated when the bin has handed them out, and the next part is due.
    part: u16,
    uncounted: u16,
    /// Freed slots that were handed out again, and are not counted as allocated yet.
    again: u16,
}

/// Bytes of the first part of a superpage that a bin takes after a collection. Each further part is
/// twice as large, up to a superpage: so of a thousand threads, each holds little more than it uses.
const FIRST_PART: u16 = 512;
const WHOLE: u16 = SUPERPAGE as u16;

/// A small object that was freed by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// Bytes of its slot.
    pub bytes: usize,
    /// It would have lived on.
    pub uncollectable: bool,
}

/// Slots that are handed out again are counted by this number: each count is an atomic addition.
const AGAIN: u16 = 64;

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
    fn open(&mut self, start: usize, bytes: usize) {
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
    fn count_again(&mut self, heap: &Heap, class: Class) {
        let count = usize::from(std::mem::take(&mut self.again));
        heap.add_allocated(count * class.bytes());
    }
}

/// All bins of one thread. All-zero bins are empty.
///
/// A collection empties the bins of every thread ([`Bins::retire`]), so no thread may be stopped
/// while it uses one: the front end lets it leave [`Bin::take`], [`Heap::next_hole`] and
/// [`Heap::free`] first. [`Heap::refill`] and other functions that take [`Central`] cannot be under
/// way when the world is stopped, because whoever stops it holds [`Central`].
#[repr(C)]
pub struct Bins {
    /// The bins, by kind and class.
    rows: [[Bin; CLASSES]; KINDS],
    /// A bit for each kind of which a bin got a part of a superpage since the last collection.
    refilled: u32,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins {
            rows: std::array::from_fn(|_| std::array::from_fn(|_| Bin::default())),
            refilled: 0,
        }
    }
}

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

    /// The bin for objects of a kind and a class.
    #[inline(always)]
    pub fn bin(&mut self, kind: KindId, class: Class) -> &mut Bin {
        // Cheaper than a remainder, for kinds that are not known at compile time.
        &mut self.rows[usize::from(kind.0).min(KINDS - 1)][usize::from(class.0)]
    }

    /// The bin for objects of a kind and a class, for [`Heap::refill`].
    pub fn bin_to_refill(&mut self, kind: KindId, class: Class) -> &mut Bin {
        self.refilled |= 1 << (usize::from(kind.0) % KINDS);
        self.bin(kind, class)
    }

    /// Each bin with its class.
    fn each(&mut self) -> impl Iterator<Item = (Class, &mut Bin)> {
        let rows = self.rows.iter_mut();
        rows.flat_map(|row| Class::all().zip(row.iter_mut()))
    }

    /// Counts what the bins handed out as allocated ([`Heap::allocated`]).
    pub fn count(&mut self, heap: &Heap) {
        let refilled = self.refilled;
        let rows = self.rows.iter_mut().enumerate();
        for (_, row) in rows.filter(|(kind, _)| refilled >> kind & 1 == 1) {
            for (class, bin) in Class::all().zip(row) {
                if bin.uncounted > 0 {
                    bin.count(heap, class);
                }
            }
        }
    }

    /// Empties the bins of a thread that ends. What they did not hand out is lost until the next
    /// collection, so it counts as allocated.
    pub fn abandon(&mut self, heap: &Heap) {
        for (_, bin) in self.each() {
            heap.add_allocated(std::mem::take(&mut bin.uncounted).into());
        }
        self.retire(heap);
    }

    /// Empties all bins. The census of the collection that begins with this finds again what was
    /// not handed out.
    pub fn retire(&mut self, heap: &Heap) {
        self.refilled = 0;
        for (class, bin) in self.each() {
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
            while bin.freed != 0 {
                heap.give_up(bin.freed);
                bin.freed = heap.unlink(bin.freed);
            }
            *bin = Bin::default();
        }
    }

    /// Whether a marked slot is uncollectable only because it is a part of the hole that one of these
    /// bins has open. The owner of the bins may run.
    pub fn holds(&self, heap: &Heap, slot: Slot) -> bool {
        /// How often a hole is read at most while its owner changes it.
        const READS: usize = 16;
        let it = heap.side.descriptor(slot.superpage);
        if !it.has(flag::UNCOLLECTABLE) || it.usage() != Use::Small {
            return false;
        }
        let (kind, class) = (it.kind.load(Relaxed), it.class.load(Relaxed));
        let bin = &raw const self.rows[usize::from(kind) % KINDS][usize::from(class)];
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
        for (number, bin) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            let class = Class(number as u8);
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

impl Heap {
    /// Opens a slot that was freed into the bin, or the next hole of the bin's own part of a
    /// superpage. False if there is neither.
    #[inline]
    pub fn next_hole(&self, bin: &mut Bin, kind: KindId, class: Class) -> bool {
        if bin.freed == 0 {
            return self.open_hole(bin, kind, class);
        }
        let start = bin.freed;
        bin.freed = self.unlink(start);
        self.clear(self.kind(kind), start, class.bytes(), false);
        bin.again += 1;
        if bin.again == AGAIN {
            bin.count_again(self, class);
        }
        bin.open(start, class.bytes());
        true
    }

    /// Opens the next hole of the bin's own part of a superpage. False if there is none.
    fn open_hole(&self, bin: &mut Bin, kind: KindId, class: Class) -> bool {
        let Some(number) = bin.superpage.checked_sub(1) else {
            return false;
        };
        let (bytes, slots) = (class.bytes(), class.slots());
        let of = self.kind(kind);
        let superpage = Superpage(number);
        let marks = self.side.marks(superpage);
        let (next, until) = (usize::from(bin.next), usize::from(bin.until));
        let Some((from, to)) = bits::runs(marks, next, until, false).next() else {
            bin.superpage = 0;
            return false;
        };
        bin.next = to as u16;
        let start = self.side.address(superpage) + from * bytes;
        let it = self.side.descriptor(superpage);
        let clean = it.has(flag::CLEAN);
        self.clear(of, start, (to - from) * bytes, clean);
        if clean && to == slots {
            it.lower(flag::CLEAN);
        }
        if of.uncollectable {
            // Whatever is not handed out loses its mark when the bin is retired. Another bin may mark
            // a hole of the same superpage at the same time.
            for (at, mask) in bits::words(from, to) {
                marks[at].fetch_or(mask, Relaxed);
            }
        }
        bin.open(start, (to - from) * bytes);
        true
    }

    /// Gives the bin a part of a superpage with a hole, and opens the hole.
    ///
    /// # Errors
    /// No superpage has a hole, and no free superpage may be taken.
    pub fn refill(
        &self,
        central: &mut Central,
        bin: &mut Bin,
        kind: KindId,
        class: Class,
    ) -> Result<(), Exhausted> {
        while !self.next_hole(bin, kind, class) {
            let (superpage, start) = match central.take_rest(kind, class) {
                Some(rest) => rest,
                None => (self.take_with_holes(central, kind, class)?, 0),
            };
            // An atomic addition for each hole would wait until the cleared memory has left the
            // processor. And what a bin has is not allocated yet: there may be thousands of bins.
            self.add_allocated(std::mem::take(&mut bin.uncounted).into());
            bin.part = match self.stress.gives_all() {
                true => WHOLE,
                false => (bin.part * 2).clamp(FIRST_PART, WHOLE),
            };
            let most = (usize::from(bin.part) / class.bytes()).max(1);
            let (marks, slots) = (self.side.marks(superpage), class.slots());
            let (until, free) = bits::stretch(marks, start, slots, most);
            if until < slots {
                central.leave_rest(kind, class, (superpage, until));
            }
            bin.superpage = superpage.0 + 1;
            (bin.next, bin.until) = (start as u16, until as u16);
            bin.uncounted = (free * class.bytes()) as u16;
        }
        Ok(())
    }

    /// Takes a superpage with holes, or a free one.
    fn take_with_holes(
        &self,
        central: &mut Central,
        kind: KindId,
        class: Class,
    ) -> Result<Superpage, Exhausted> {
        let superpage = match central.take_partial(&self.side, kind, class) {
            Some(superpage) => superpage,
            None => match central.take(self, 1) {
                Ok(superpage) => {
                    self.dedicate(superpage, kind);
                    self.side.make_small(superpage, class);
                    self.clear_all(superpage, kind);
                    superpage
                }
                // Holes that have to be read from swap are used only when a collection would be
                // needed otherwise.
                Err(why) => central.take_absent(&self.side, kind, class).ok_or(why)?,
            },
        };
        self.side.descriptor(superpage).next.store(TAKEN, Relaxed);
        Ok(superpage)
    }

    /// Frees the small object that begins at `start`: its slot is the next of its kind and class that
    /// these bins hand out. `None`, and nothing is done, if no small
    /// object begins there, or the slot is free already.
    ///
    /// # Safety
    /// The object is not used any more.
    #[inline]
    pub unsafe fn free(&self, bins: &mut Bins, start: usize) -> Option<Freed> {
        if !self.range().contains(&start) {
            return None;
        }
        let superpage = self.side.superpage(start);
        let it = self.side.descriptor(superpage);
        if it.usage() != Use::Small {
            return None;
        }
        let granule = start % SUPERPAGE / GRANULE;
        let index = slot_at(granule, it.reciprocal.load(Relaxed)) as u16;
        let granules = usize::from(it.granules.load(Relaxed));
        let begins = usize::from(index) * granules * GRANULE == start % SUPERPAGE;
        if !begins || index >= it.slots.load(Relaxed) {
            return None;
        }
        // A slot that the last collection found dead is handed out again by the bin that takes its
        // superpage. While marks are incomplete they do not tell that.
        let dead = it.next.load(Relaxed) < LEFT
            && !self.is_stepping()
            && !self.side.is_marked(Slot { superpage, index });
        if dead || self.freed(start).is_some() {
            return None;
        }
        let (kind, class) = (it.kind.load(Relaxed), it.class.load(Relaxed));
        let bin = bins.bin(KindId(kind), Class(class));
        // The mark stays until the next collection: without it, the search for holes would find
        // this slot too.
        // SAFETY: nobody else uses the slot any more.
        unsafe { *(start as *mut [usize; 2]) = [bin.freed, self.seal(start, bin.freed)] };
        bin.freed = start;
        Some(Freed {
            bytes: granules * GRANULE,
            uncollectable: it.has(flag::UNCOLLECTABLE),
        })
    }

    /// The second word of a freed slot whose first word is `next`.
    #[inline]
    fn seal(&self, start: usize, next: usize) -> usize {
        start ^ next ^ self.secret
    }

    /// The slot after a freed one in its list, or 0. `None` if the slot was not freed, or was
    /// written to since.
    #[inline]
    pub(crate) fn freed(&self, start: usize) -> Option<usize> {
        // SAFETY: the first two words of a slot; the smallest has as many.
        let [next, seal] = unsafe { *(start as *const [usize; 2]) };
        (seal == self.seal(start, next)).then_some(next)
    }

    /// Removes the first slot from a list of freed ones and returns the next, or 0. If the program
    /// wrote to the freed slot, the rest of the list is left to the next collection.
    #[inline]
    fn unlink(&self, start: usize) -> usize {
        let next = self.freed(start).unwrap_or(0);
        // SAFETY: a slot that nobody has.
        unsafe { *(start as *mut usize).add(1) = 0 };
        next
    }

    /// Assigns a kind to a free superpage and clears its marks.
    pub(crate) fn dedicate(&self, superpage: Superpage, kind: KindId) {
        let of = self.kind(kind);
        let it = self.side.descriptor(superpage);
        it.kind.store(kind.0, Relaxed);
        let layout = match of.layout {
            Layout::Opaque => flag::OPAQUE,
            Layout::Words => 0,
            Layout::Traced => flag::TRACED,
        };
        let holds = if of.uncollectable {
            flag::UNCOLLECTABLE
        } else {
            0
        };
        it.set_flags(it.flags() & flag::CLEAN | layout | holds);
        for word in self.side.marks(superpage) {
            word.store(0, Relaxed);
        }
    }

    /// Zeroes memory that is about to be handed out, if its kind demands that.
    #[inline]
    pub(crate) fn clear(&self, kind: Kind, start: usize, bytes: usize, clean: bool) {
        if kind.zeroed && !clean {
            // SAFETY: slots of a superpage of the heap that nobody has.
            unsafe { std::ptr::write_bytes(start as *mut u8, 0, bytes) };
        }
    }

    /// Zeroes a superpage that was free, if its kind demands that. Front ends may look at all of its
    /// slots, handed out or not.
    fn clear_all(&self, superpage: Superpage, kind: KindId) {
        let it = self.side.descriptor(superpage);
        let clean = it.has(flag::CLEAN);
        let of = self.kind(kind);
        self.clear(of, self.side.address(superpage), SUPERPAGE, clean);
        if of.zeroed {
            it.raise(flag::CLEAN);
        }
    }

    /// Takes back the slots of a hole that were not handed out.
    fn give_up_hole(&self, start: usize, end: usize) {
        self.give_up(start);
        if let Some((first, flags)) = self.side.resolve(start)
            && flags & flag::UNCOLLECTABLE != 0
        {
            let bytes = self.side.size(first);
            (start..end).step_by(bytes).for_each(|at| self.give_up(at));
        }
    }

    /// Takes back a slot that a bin holds but did not hand out. It may still have the mark of the
    /// object that was freed, or of an uncollectable one.
    fn give_up(&self, address: usize) {
        if let Some((slot, _)) = self.side.resolve(address) {
            self.side.unmark(slot);
            self.leave(slot.superpage);
        }
    }

    /// Notes for a superpage that a bin took: not all of its unmarked slots were handed out.
    fn leave(&self, superpage: Superpage) {
        let next = &self.side.descriptor(superpage).next;
        if next.load(Relaxed) == TAKEN {
            next.store(LEFT, Relaxed);
        }
    }

    /// Whether a slot's object was freed since the last collection.
    pub fn is_freed(&self, slot: Slot) -> bool {
        self.freed(self.side.start(slot)).is_some()
    }
}
