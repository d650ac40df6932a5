//! Walks over the objects of a heap, in address order. Only metadata is read.

use crate::address::{Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::class::Class;
use crate::descriptor::{TAKEN, Use, flag};
use crate::heap::Heap;
use crate::kind::KindId;
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    /// Calls `each` with every marked slot, in address order: the objects that the last collection
    /// found, and uncollectable ones.
    pub fn each_marked(&self, central: &Central, mut each: impl FnMut(Slot)) {
        central.check(self);
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.side.descriptor(superpage);
            let slots = match it.usage() {
                Use::Free | Use::Tail => continue,
                Use::Small => usize::from(it.slots.load(Relaxed)),
                Use::Head => 1,
            };
            for (from, to) in bits::runs(self.side.marks(superpage), 0, slots, true) {
                for index in from..to {
                    let index = index as u16;
                    each(Slot { superpage, index });
                }
            }
        }
    }

    /// Calls `each` with every unmarked slot of a kind, whether it holds a dead object or none, and
    /// marks the slot if `each` returns true.
    pub fn each_unmarked(
        &self,
        central: &Central,
        kind: KindId,
        mut each: impl FnMut(Slot) -> bool,
    ) {
        for slot in self.unmarked(central, kind) {
            if each(slot) {
                self.set_mark(slot);
            }
        }
    }

    /// Iterates over the same slots in address order. A slot is skipped if it has been marked when
    /// its turn comes.
    pub fn unmarked(
        &self,
        central: &Central,
        kind: KindId,
    ) -> impl Iterator<Item = Slot> + Clone + use<'_> {
        central.check(self);
        let slots_of = move |superpage: Superpage| {
            let it = self.side.descriptor(superpage);
            match it.usage() {
                Use::Small if it.kind.load(Relaxed) == kind.0 => it.slots.load(Relaxed),
                Use::Head if it.kind.load(Relaxed) == kind.0 => 1,
                _ => 0,
            }
        };
        (0..central.committed() as u32)
            .map(Superpage)
            .flat_map(move |superpage| {
                (0..slots_of(superpage)).map(move |index| Slot { superpage, index })
            })
            .filter(|&slot| !self.is_marked(slot))
    }

    /// Calls `each` with every slot of a collectable kind that was handed out, including freed slots and
    /// those that bins hold. The marks must be those of the last collection. Where a bin took a part of a
    /// superpage and left the rest, only the slots marked then are told: it is not known which of the others
    /// hold objects.
    pub fn each_handed_out(&self, central: &Central, mut each: impl FnMut(Slot)) {
        central.check(self);
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.side.descriptor(superpage);
            let slots = match it.usage() {
                Use::Free | Use::Tail => continue,
                _ if it.has(flag::UNCOLLECTABLE) => continue,
                Use::Small => it.slots.load(Relaxed),
                Use::Head => 1,
            };
            let given = match it.usage() {
                Use::Head => 1,
                _ if it.next.load(Relaxed) != TAKEN => 0,
                _ => {
                    let class = Class(it.class.load(Relaxed));
                    central.given(superpage, KindId(it.kind.load(Relaxed)), class)
                }
            };
            for index in 0..slots {
                let slot = Slot { superpage, index };
                if usize::from(index) < given || self.side.is_marked(slot) {
                    each(slot);
                }
            }
        }
    }
}
