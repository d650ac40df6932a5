//! Collections of young objects by sticky mark bits (Demers, Weiser, Hayes, Boehm, Bobrow and
//! Shenker, POPL 1990): what the last collection marked stays marked, and is looked into again only
//! where it was written to since.

use super::crew::Crew;
use super::marker::Marker;
use super::pending::WINDOW;
use crate::address::{Slot, Superpage};
use crate::central::Central;
use crate::side::{Use, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// With more than this on its stack a marker looks into that first: a stack that is full costs much.
const PLENTY: usize = 1024;

impl Marker<'_> {
    /// Has what was marked before and may have been written to since looked into, with who helps.
    /// With the roots of a collection before which marks were not cleared. What the front end
    /// traces is looked into in any case: what it reads for that may lie elsewhere.
    pub(crate) fn written(&mut self, central: &Central, crew: Option<&Crew>) {
        self.written_from = None;
        self.look_at_written(0..central.committed(), crew);
    }

    /// The same for a collection in steps: each step goes on with it until its time is over. With
    /// the roots of the first.
    pub(crate) fn written_in_steps(&mut self) {
        self.written_from = Some(0);
    }

    /// Goes on, with one window at least. Each is armed when it was looked into: what is written to
    /// since is for the last step, as is what no other comes to.
    pub(super) fn go_on_with_written(&mut self, central: &Central, crew: Option<&Crew>) {
        while let Some(start) = self.written_from {
            let end = (start + WINDOW).min(central.committed());
            self.look_at_written(start..end, crew);
            self.heap.watch_written(start..end);
            self.written_from = (end < central.committed()).then_some(end);
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
        }
    }

    fn look_at_written(&mut self, superpages: Range<usize>, crew: Option<&Crew>) {
        let mut over = false;
        for at in superpages {
            self.look_if_written(Superpage(at as u32));
            if !over && self.stack.len() > PLENTY {
                over = !self.drain(crew);
            }
        }
    }

    fn look_if_written(&mut self, superpage: Superpage) {
        let it = self.heap.side.descriptor(superpage);
        let object = Slot {
            superpage: self.heap.head(superpage),
            index: 0,
        };
        let flags = self.heap.side.descriptor(object.superpage).flags();
        let traced = flags & flag::TRACED != 0;
        let large = match it.usage() {
            Use::Free => return,
            Use::Small => false,
            Use::Head | Use::Tail => true,
        };
        // What is traced is so as a whole.
        let nothing =
            large && (!self.heap.side.is_marked(object) || traced && superpage != object.superpage);
        // What is summarised was not written to, whether it came back meanwhile or not.
        let still = !it.is_young() || it.has(flag::SUMMARISED);
        if nothing || flags & flag::OPAQUE != 0 || still && !traced {
            return;
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
    }
}
