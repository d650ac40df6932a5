//! The end of a collection: marked slots are counted, unmarked ones become free. Only metadata is
//! read, so a dead superpage is not touched, whether it is present or not.

use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::descriptor::{Use, flag};
use crate::heap::Heap;
use plimsoll_unit::Bytes;
use std::sync::atomic::Ordering::Relaxed;

/// The counts of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepStatistics {
    /// Live objects.
    pub objects: u64,
    /// The memory of their slots.
    pub live: Bytes,
    /// Objects without references, a part of `live`.
    pub opaque: Bytes,
    /// Objects that do not have superpages of their own, a part of `opaque`.
    pub small_opaque: Bytes,
    /// Number of the objects in `small_opaque`.
    pub small_opaque_objects: u64,
    /// Free slots in superpages with holes.
    pub holes: Bytes,
    /// Superpages that were freed.
    pub freed: usize,
    /// Superpages with holes.
    pub partial: usize,
}

impl Heap {
    /// Clears all marks except those of uncollectable objects. All threads are stopped and their
    /// bins retired.
    pub(crate) fn clear_marks(&self, central: &mut Central) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.side.descriptor(superpage);
            if matches!(it.usage(), Use::Small | Use::Head) && !it.has(flag::UNCOLLECTABLE) {
                for word in self.side.marks(superpage) {
                    word.store(0, Relaxed);
                }
            }
            if it.has(flag::OUTWARD) {
                it.lower(flag::OUTWARD);
            }
        }
    }

    /// Counts marked slots, frees superpages without any, and lists those with holes, lowest
    /// address first.
    pub(crate) fn sweep(&self, central: &mut Central) -> SweepStatistics {
        let mut swept = SweepStatistics::default();
        central.clear_partial();
        for at in (0..central.committed() as u32).rev() {
            let superpage = Superpage(at);
            let it = self.side.descriptor(superpage);
            match it.usage() {
                Use::Free | Use::Tail => {}
                Use::Small => {
                    it.lower(flag::CLEAN);
                    let slots = usize::from(it.slots.load(Relaxed));
                    let live = bits::count(self.side.marks(superpage), slots);
                    let bytes = self.side.size(Slot {
                        superpage,
                        index: 0,
                    });
                    swept.count(live as u64, bytes, it.has(flag::OPAQUE));
                    if it.has(flag::OPAQUE) {
                        swept.small_opaque += Bytes::from(live * bytes);
                        swept.small_opaque_objects += live as u64;
                    }
                    if live == 0 {
                        central.release(self, superpage, 1);
                        swept.freed += 1;
                    } else if live < slots {
                        central.add_partial(&self.side, superpage);
                        swept.partial += 1;
                        swept.holes += Bytes::from((slots - live) * bytes);
                    }
                }
                Use::Head => {
                    let slot = Slot {
                        superpage,
                        index: 0,
                    };
                    if self.side.is_marked(slot) {
                        swept.count(1, self.side.size(slot), it.has(flag::OPAQUE));
                    } else {
                        let extent = it.extent.load(Relaxed) as usize;
                        central.release(self, superpage, extent);
                        swept.freed += extent;
                    }
                }
            }
        }
        swept
    }
}

impl SweepStatistics {
    fn count(&mut self, objects: u64, bytes: usize, opaque: bool) {
        let bytes = Bytes::from(bytes) * objects;
        self.objects += objects;
        self.live += bytes;
        self.opaque += if opaque { bytes } else { Bytes::ZERO };
    }

    /// The memory that freed superpages take up.
    pub fn freed_memory(&self) -> Bytes {
        Bytes::from(self.freed * SUPERPAGE)
    }
}
