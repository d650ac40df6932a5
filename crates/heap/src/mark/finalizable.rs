//! Two ways for a front end to treat unreachable objects: to mark them after all, or to mark only the objects
//! that they refer to. There may be many, and they may be in swap. One at a time, each would have its
//! superpage read, so they are handled all together.

use super::marker::{Marker, WORD};
use super::pending::{WINDOW, Window};
use super::space::Space;
use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::central::Central;
use crate::descriptor::flag;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// When the stack holds more than this, the marker drains it before it goes on, so that the stack
/// takes no more memory.
const PLENTY: usize = 1024;

/// An object whose referents are to be marked, but not the object itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finalizable {
    /// Where the object is.
    pub slot: Slot,
    /// Mark the object too if it refers to itself.
    pub itself: bool,
}

impl<S: Space> Marker<'_, S> {
    /// Marks these objects, whether they are marked already or not, and what they refer to. No
    /// other marker runs meanwhile.
    pub fn revive(&mut self, central: &Central, slots: impl Iterator<Item = Slot>) {
        self.mark_from(central, |marker| {
            for slot in slots {
                if marker.stack.len() > PLENTY {
                    marker.drain(None);
                }
                marker.slot(slot);
            }
        });
    }

    /// Marks what objects refer to, but not the objects. An object that is reached from another
    /// one, or from itself, is marked like any other, and skipped when its turn comes. The objects
    /// must come in address order. No other marker runs meanwhile.
    ///
    /// References into swap are followed after all of the objects were scanned. The result does not depend on
    /// the order: everything that they reach together is marked. But it is then unknown which of them reached
    /// it: `found` is called with each object that turns out to reach itself, as far as that shows without
    /// reading swap.
    pub fn contents(
        &mut self,
        central: &Central,
        objects: impl Iterator<Item = Finalizable> + Clone,
        found: impl FnMut(Slot),
    ) {
        self.mark_from(central, |marker| {
            marker.look_into_all(central, objects, found);
        });
    }

    /// Scans objects in swap by reading them, even if their superpages have summaries: a summary
    /// does not tell one object's references from those of its neighbours. Reads one window at a
    /// time: the kernel reads the next one while this one is scanned.
    fn look_into_all(
        &mut self,
        central: &Central,
        objects: impl Iterator<Item = Finalizable> + Clone,
        mut found: impl FnMut(Slot),
    ) {
        let mut ahead = objects.clone();
        let mut objects = objects.peekable();
        let mut last = None;
        let mut window = self.next_absent(&mut ahead, &mut last);
        self.ask_for(&window);
        loop {
            let next = self.next_absent(&mut ahead, &mut last);
            self.ask_for(&next);
            let end = next.all().next();
            let is_before =
                |object: &Finalizable| end.is_none_or(|end| object.slot.superpage.0 < end.0);
            while let Some(object) = objects.next_if(is_before) {
                if !self.heap.is_marked(object.slot) {
                    self.look_into(central, object);
                    if self.heap.is_marked(object.slot) {
                        found(object.slot);
                    }
                }
            }
            self.give_back(&window);
            if end.is_none() {
                return;
            }
            window = next;
        }
    }

    /// The next superpages to read objects from; `last` is the last one so far.
    fn next_absent(
        &self,
        ahead: &mut impl Iterator<Item = Finalizable>,
        last: &mut Option<Superpage>,
    ) -> Window {
        let mut window = Window::new();
        for Finalizable { slot, .. } in ahead {
            let flags = self.heap.side.descriptor(slot.superpage).flags();
            if flags & (flag::OPAQUE | flag::ABSENT) == flag::ABSENT
                && *last != Some(slot.superpage)
                && !self.heap.is_marked(slot)
                && !self.has_parts(slot, flags)
            {
                *last = Some(slot.superpage);
                if window.push(slot.superpage, true) {
                    break;
                }
            }
        }
        window
    }

    /// Whether an object is scanned superpage by superpage.
    fn has_parts(&self, slot: Slot, flags: u16) -> bool {
        flags & flag::TRACED == 0 && self.heap.size(slot) > SUPERPAGE
    }

    /// Scans one unmarked object, and those of its referents that are in memory.
    fn look_into(&mut self, central: &Central, object: Finalizable) {
        let flags = self.heap.side.descriptor(object.slot.superpage).flags();
        if flags & flag::OPAQUE != 0 {
            return;
        }
        let nothing_pending = !self.heap.pending.load(Relaxed);
        let overflows = self.marking.overflows;
        if object.itself {
            // The stack is empty: there is room.
            self.push(object.slot, flags);
        } else {
            self.look_at_others(object.slot);
        }
        self.drain(None);
        if nothing_pending && self.marking.overflows != overflows {
            // All that was pushed belongs to this object, and may lead back to it. Rarely does one
            // object fill a stack.
            self.drain_pending(central, None);
        }
    }

    /// Reaches what an object refers to, except itself.
    fn look_at_others(&mut self, slot: Slot) {
        let side = &self.heap.side;
        let (start, end) = (side.start(slot), side.start(slot) + side.size(slot));
        if end - start <= SUPERPAGE {
            return self.look_at_words_but(start..end, slot);
        }
        for start in (start..end).step_by(WINDOW * SUPERPAGE) {
            let piece = start..end.min(start + WINDOW * SUPERPAGE);
            let mut window = Window::new();
            for at in piece.clone().step_by(SUPERPAGE) {
                let superpage = side.superpage(at);
                if side.descriptor(superpage).has(flag::ABSENT) {
                    window.push(superpage, true);
                }
            }
            self.ask_for(&window);
            self.look_at_words_but(piece, slot);
            self.give_back(&window);
        }
    }

    fn look_at_words_but(&mut self, span: Range<usize>, slot: Slot) {
        let map = self.heap.map(slot.superpage);
        let start = self.heap.side.start(slot);
        let is_looked_at = |&at: &usize| map.is_none_or(|map| map.has((at - start) / WORD));
        for at in span.step_by(WORD).filter(is_looked_at) {
            // SAFETY: a word of a dead object, whose contents are as they were.
            let word = unsafe { (at as *const usize).read() };
            match map {
                _ if self.heap.slot(word) == Some(slot) => {}
                None => self.word(word),
                // SAFETY: the same word; the map names it.
                Some(_) => unsafe { self.reference(at) },
            }
            if self.stack.len() > PLENTY {
                self.drain(None);
            }
        }
    }

    /// Pages out again what was read.
    fn give_back(&mut self, window: &Window) {
        self.marking.read += window.absent().count() as u64;
        self.each_run(window, |range| self.heap.side.os().page_out(range));
    }
}
