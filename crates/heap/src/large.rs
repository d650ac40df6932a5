//! Large objects: each has adjacent superpages of its own.

use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::central::{Central, Exhausted};
use crate::descriptor::{Use, flag};
use crate::heap::Heap;
use crate::kind::KindId;
use crate::tracking;
use std::sync::atomic::Ordering::Relaxed;

/// From this many bytes on, memory that must be zeroed may be given back to the kernel instead of
/// being written to.
const DISCARD: usize = 256 << 10;

impl Heap {
    /// Allocates an object of `bytes` bytes, more than [`LARGEST_SMALL`](crate::LARGEST_SMALL).
    /// With `first_only`, only references to its first superpage keep it alive.
    ///
    /// # Errors
    /// There is no room for an object of that size.
    pub fn allocate_large(
        &self,
        central: &mut Central,
        kind: KindId,
        bytes: usize,
        first_only: bool,
    ) -> Result<usize, Exhausted> {
        central.check(self);
        let bytes = bytes
            .checked_next_multiple_of(GRANULE)
            .ok_or(Exhausted::Memory)?;
        let count = bytes.div_ceil(SUPERPAGE);
        let head = central.take(self, count)?;
        self.dedicate(head, kind);
        self.side.make_large(head, bytes);
        if first_only {
            self.side.descriptor(head).raise(flag::FIRST_ONLY);
        }
        self.add_allocated(bytes);
        tracking::unwatch_taken(&self.side, head, count);
        let of = self.kind(kind);
        if of.zeroed {
            self.clear_large(head, count);
        }
        for at in 0..count {
            let it = self.side.descriptor(Superpage(head.0 + at as u32));
            it.lower(flag::CLEAN);
        }
        if of.uncollectable {
            self.side.mark::<true>(Slot {
                superpage: head,
                index: 0,
            });
        }
        Ok(self.side.address(head))
    }

    /// Zeroes what an object is made of. As a rule that means to write to it: memory that was given
    /// back costs a fault for each page. But what is in swap is not read for it; and where memory is
    /// short, the object takes no more than the program writes to.
    fn clear_large(&self, head: Superpage, count: usize) {
        let start = self.side.address(head);
        let superpage = |at: usize| self.side.descriptor(Superpage(head.0 + at as u32));
        let dirty = |at: &usize| !superpage(*at).has(flag::CLEAN);
        let whole = start..start + count * SUPERPAGE;
        if (0..count).filter(dirty).count() * SUPERPAGE >= DISCARD
            && (self.is_scarce() || (0..count).any(|at| superpage(at).has(flag::ABSENT)))
            && self.side.os().discard(whole).is_ok()
        {
            return;
        }
        for at in (0..count).filter(dirty) {
            // SAFETY: superpages that were taken for this object, which nobody has yet.
            unsafe { std::ptr::write_bytes((start + at * SUPERPAGE) as *mut u8, 0, SUPERPAGE) };
        }
    }

    /// Frees a large object.
    ///
    /// # Safety
    /// `slot` is that of a large object that is no longer used and was not freed before.
    pub unsafe fn free_large(&self, central: &mut Central, slot: Slot) {
        central.check(self);
        let it = self.side.descriptor(slot.superpage);
        if it.usage() != Use::Head {
            return;
        }
        if self.is_stepping() && it.has(flag::TRACED) {
            // A marker may be about to trace it, so it only loses its mark: the next collection
            // frees it.
            return self.side.unmark(slot);
        }
        let extent = it.extent.load(Relaxed) as usize;
        central.release(self, slot.superpage, extent);
    }

    /// Whether a slot belongs to a large object.
    pub fn is_large(&self, slot: Slot) -> bool {
        self.side.descriptor(slot.superpage).usage() == Use::Head
    }
}
