//! Collections of young objects by sticky mark bits (Demers, Weiser, Hayes, Boehm, Bobrow and Shenker, POPL 1990): what the
//! last collection marked stays marked, and is looked into again only where it was written to since.

use super::marker::Marker;
use crate::address::{Slot, Superpage};
use crate::central::Central;
use crate::side::{Use, flag};
use std::sync::atomic::Ordering::Relaxed;

impl Marker<'_> {
    /// Has what was marked before and may have been written to since looked into. With the roots of a collection before which
    /// marks were not cleared.
    pub fn written(&mut self, central: &Central) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.heap.side.descriptor(superpage);
            if !it.is_young() || self.heap.flags_of_object(superpage) & flag::OPAQUE != 0 {
                continue;
            }
            match it.usage() {
                Use::Free => {}
                // Its turn comes in the order of addresses.
                _ if it.has(flag::ABSENT) => {
                    it.raise(flag::PENDING);
                    self.heap.pending.store(true, Relaxed);
                }
                Use::Small => self.each_marked(superpage),
                Use::Head | Use::Tail => self.part_of_large(superpage),
            }
        }
    }

    fn part_of_large(&mut self, superpage: Superpage) {
        let side = self.heap.side;
        let head = self.heap.head(superpage);
        let slot = Slot {
            superpage: head,
            index: 0,
        };
        if !side.is_marked(slot) {
            return;
        }
        if side.descriptor(head).has(flag::TRACED) {
            return self.remember(slot, side.descriptor(head).flags());
        }
        let part = self.part(superpage);
        self.look_at_words(part);
    }
}
