//! Small objects: bins are filled from superpages. A bin finds its holes in the mark bits of a superpage that
//! belongs to the bin alone, so sweeping never touches an object.

use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::bins::{Bin, Bins};
use crate::bits;
use crate::central::{Central, Exhausted};
use crate::class::{Class, slot_at};
use crate::descriptor::{LEFT, TAKEN, Use, flag};
use crate::heap::Heap;
use crate::kind::{Kind, KindId, Layout};
use std::sync::atomic::Ordering::Relaxed;

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
            // Slots that are not handed out lose their marks when the bin is retired. Another bin may mark a
            // hole of the same superpage at the same time.
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
        central.check(self);
        while !self.next_hole(bin, kind, class) {
            let (superpage, start) = match central.take_rest(kind, class) {
                Some(rest) => rest,
                None => (self.take_with_holes(central, kind, class)?, 0),
            };
            // An atomic addition for each hole would wait until the cleared memory has left the
            // processor. And what a bin has is not allocated yet: there may be thousands of bins.
            self.add_allocated(std::mem::take(&mut bin.uncounted).into());
            bin.part = if self.stress.gives_all() {
                WHOLE
            } else {
                (bin.part * 2).clamp(FIRST_PART, WHOLE)
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
                    central.prepare(kind, class);
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
        let list = bins.freed(KindId(kind), Class(class));
        // The mark stays until the next collection: without it, the search for holes would find
        // this slot too.
        // SAFETY: nobody else uses the slot any more.
        unsafe { *(start as *mut [usize; 2]) = [*list, self.seal(start, *list)] };
        *list = start;
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
            Layout::Mapped(_) => flag::MAPPED,
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
    pub(crate) fn give_up_hole(&self, start: usize, end: usize) {
        self.give_up(start);
        if let Some((first, flags)) = self.side.resolve(start)
            && flags & flag::UNCOLLECTABLE != 0
        {
            let bytes = self.side.size(first);
            (start..end).step_by(bytes).for_each(|at| self.give_up(at));
        }
    }

    /// Takes back freed slots, from this one on; 0 for none.
    pub(crate) fn give_up_freed(&self, mut start: usize) {
        while start != 0 {
            self.give_up(start);
            start = self.unlink(start);
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
    pub(crate) fn leave(&self, superpage: Superpage) {
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
