//! What a front end wants of objects that nothing reaches: that they live after all, or that what
//! they refer to does. There may be many, and in swap, where each by itself would have its
//! superpage read: so it is done for all of them together.

use super::marker::{Marker, WORD};
use super::pending::{WINDOW, Window};
use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::central::Central;
use crate::side::flag;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// With more than this on its stack a marker looks into that first: it takes no more memory for it.
const PLENTY: usize = 1024;

/// An object what refers to which is to be marked, and not itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dying {
    /// Where it is.
    pub slot: Slot,
    /// It is marked, too, if it refers to itself.
    pub itself: bool,
}

impl Marker<'_> {
    /// Marks these, marked already or not, and what they refer to. Nobody else marks meanwhile.
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

    /// Marks what objects refer to, and not the objects, unless one is reached from another, or
    /// from itself: then it is marked as any other, and not looked into by itself when its turn
    /// comes. They come in the order of their addresses. Nobody else marks meanwhile.
    ///
    /// What they reach in swap is read when all of them were looked into: what is marked in the end
    /// is what they reach together, in whichever order it was found. But nobody can tell then from
    /// which of them: `found` is told of those that were reached from themselves as far as that can
    /// be seen without.
    pub fn contents(
        &mut self,
        central: &Central,
        objects: impl Iterator<Item = Dying> + Clone,
        found: impl FnMut(Slot),
    ) {
        self.mark_from(central, |marker| {
            marker.look_into_all(central, objects, found)
        });
    }

    /// Objects in swap are read even if their superpages have summaries, which do not tell them
    /// from their neighbours: a window at a time, and while one is looked into the kernel reads the
    /// next.
    fn look_into_all(
        &mut self,
        central: &Central,
        objects: impl Iterator<Item = Dying> + Clone,
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
            let is_before = |object: &Dying| end.is_none_or(|end| object.slot.superpage.0 < end.0);
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

    /// The next superpages that objects are to be read from; `last` is the last one so far.
    fn next_absent(
        &self,
        ahead: &mut impl Iterator<Item = Dying>,
        last: &mut Option<Superpage>,
    ) -> Window {
        let mut window = Window::new();
        for Dying { slot, .. } in ahead {
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

    /// Whether an object is looked into by its superpages.
    fn has_parts(&self, slot: Slot, flags: u8) -> bool {
        flags & flag::TRACED == 0 && self.heap.size(slot) > SUPERPAGE
    }

    /// Looks into one object that nobody marked, and into what is in memory of what it refers to.
    fn look_into(&mut self, central: &Central, object: Dying) {
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
            // All of it is this object's, and may lead back here. Whoever fills a stack marks so
            // much that this is rare.
            self.drain_pending(central, None);
        }
    }

    /// Reaches what an object refers to but for itself.
    fn look_at_others(&mut self, slot: Slot) {
        let side = self.heap.side;
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
        for at in span.step_by(WORD) {
            // SAFETY: a word of a dead object, whose contents are as they were.
            let word = unsafe { (at as *const usize).read() };
            if self.heap.slot(word) != Some(slot) {
                self.word(word);
            }
            if self.stack.len() > PLENTY {
                self.drain(None);
            }
        }
    }

    /// Has what was read go again.
    fn give_back(&mut self, window: &Window) {
        self.marking.read += window.absent().count() as u64;
        self.each_run(window, |range| self.heap.os.page_out(range));
    }
}
