//! Scanning objects that are not plain words, and all objects of a superpage.

use super::marker::Marker;
use super::space::Space;
use super::spans::Span;
use crate::address::{GRANULE, Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::descriptor::{Use, flag};
use crate::kind::KindId;
use std::sync::atomic::Ordering::Relaxed;

impl<S: Space> Marker<'_, S> {
    /// Scans a small object, or a part of a large one in one superpage, by the map of its kind.
    pub(super) fn look_at_mapped(&mut self, part: Span) {
        let superpage = self.heap.side.superpage(part.start);
        // Between two steps an object may be freed, and its superpage be used for others.
        let Some(map) = self.heap.map(superpage) else {
            return;
        };
        let object = self.heap.side.object(part.start);
        map.each(object, part.start..part.end, |at| {
            // SAFETY: a word of a marked object.
            unsafe { self.reference(at) };
        });
    }

    /// Scans a part of a large object that lies in one superpage.
    pub(super) fn look_at_part_of_large(&mut self, superpage: Superpage) {
        let part = self.part(superpage);
        match self.heap.side.flags_of_object(superpage) & flag::MAPPED {
            0 => self.look_at_words(part),
            _ => self.look_at_mapped(part),
        }
    }

    pub(super) fn look_at_traced(&mut self, start: usize, end: usize) {
        let superpage = self.heap.side.superpage(start);
        let it = self.heap.side.descriptor(superpage);
        let small = it.usage() == Use::Small;
        if small && self.heap.is_stepping() && self.heap.freed(start).is_some() {
            // The object was freed between two steps: its first words are now the collector's.
            return;
        }
        let kind = KindId(it.kind.load(Relaxed));
        let tracer = self.tracer;
        // SAFETY: a marked object of this kind; the world stands still.
        unsafe { tracer.trace(start, end - start, kind, self) };
    }

    /// Has the uncollectable objects scanned, which are roots.
    pub(crate) fn uncollectable(&mut self, central: &Central) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.heap.side.descriptor(superpage);
            if it.has(flag::UNCOLLECTABLE) && matches!(it.usage(), Use::Small | Use::Head) {
                self.each_marked(superpage);
            }
        }
    }

    /// Has all marked objects of a superpage scanned, now or later.
    pub(super) fn each_marked(&mut self, superpage: Superpage) {
        let side = &self.heap.side;
        let it = side.descriptor(superpage);
        let small = it.usage() == Use::Small;
        let slots = if small {
            usize::from(it.slots.load(Relaxed))
        } else {
            1
        };
        let apart = flag::OPAQUE | flag::TRACED | flag::MAPPED | flag::ABSENT;
        let together = small && it.flags() & apart == 0;
        for (from, to) in bits::runs(side.marks(superpage), 0, slots, true) {
            if together {
                self.push_run(superpage, from, to);
                continue;
            }
            for index in from..to {
                let index = index as u16;
                if self.stack.is_full() {
                    self.drain(None);
                }
                self.remember(Slot { superpage, index }, it.flags());
            }
        }
    }

    /// Puts adjacent slots of a superpage of small objects on the stack as one span.
    fn push_run(&mut self, superpage: Superpage, from: usize, to: usize) {
        if self.stack.is_full() {
            self.drain(None);
        }
        let side = &self.heap.side;
        let bytes = usize::from(side.descriptor(superpage).granules.load(Relaxed)) * GRANULE;
        let start = side.address(superpage);
        let span = Span {
            start: start + from * bytes,
            end: start + to * bytes,
        };
        if !self.put(span) {
            self.overflow(superpage);
        }
    }
}
