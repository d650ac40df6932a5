//! Collections of young objects by sticky mark bits (Demers, Weiser, Hayes, Boehm, Bobrow and Shenker, POPL 1990): what the
//! last collection marked stays marked, and is looked into again only where it was written to since.

use super::crew::Crew;
use super::marker::Marker;
use crate::address::{Slot, Superpage};
use crate::central::Central;
use crate::side::{Use, flag};
use std::sync::atomic::Ordering::Relaxed;

/// With more than this on its stack a marker looks into that first: a stack that is full costs much.
const PLENTY: usize = 1024;

impl Marker<'_> {
    /// Has what was marked before and may have been written to since looked into, with who helps. With the roots of a
    /// collection before which marks were not cleared. What the front end traces is looked into in any case: what it reads
    /// for that may lie elsewhere.
    pub fn written(&mut self, central: &Central, crew: Option<&Crew>) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.heap.side.descriptor(superpage);
            let object = Slot {
                superpage: self.heap.head(superpage),
                index: 0,
            };
            let flags = self.heap.side.descriptor(object.superpage).flags();
            let traced = flags & flag::TRACED != 0;
            let large = match it.usage() {
                Use::Free => continue,
                Use::Small => false,
                Use::Head | Use::Tail => true,
            };
            // What is traced is so as a whole.
            let nothing = large
                && (!self.heap.side.is_marked(object) || traced && superpage != object.superpage);
            // What is summarised was not written to, whether it came back meanwhile or not.
            let still = !it.is_young() || it.has(flag::SUMMARISED);
            if nothing || flags & flag::OPAQUE != 0 || still && !traced {
                continue;
            }
            if it.has(flag::ABSENT) {
                // Its turn comes in the order of addresses.
                it.raise(flag::PENDING);
                self.heap.pending.store(true, Relaxed);
            } else if large && !traced {
                let part = self.part(superpage);
                self.look_at_words(part);
            } else {
                self.each_marked(superpage);
            }
            if self.stack.len() > PLENTY {
                self.drain(crew);
            }
        }
    }
}
