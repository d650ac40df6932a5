//! Collections of young objects by sticky mark bits (Demers, Weiser, Hayes, Boehm, Bobrow and
//! Shenker, POPL 1990): objects that the last collection marked stay marked, and are scanned again
//! only if they were written to since.

use super::marker::Marker;
use super::pending::WINDOW;
use super::space::Space;
use super::spans::Team;
use crate::address::{Slot, Superpage};
use crate::central::Central;
use crate::descriptor::{Use, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// When the stack holds more than this, the marker drains it before it goes on: a full stack costs
/// much.
const PLENTY: usize = 1024;

impl<S: Space> Marker<'_, S> {
    /// Has marked objects that may have been written to since scanned again, with the team's help.
    /// Call it with the roots of a collection that did not clear the marks. Objects that the front
    /// end traces are always scanned again, because the tracer may read memory elsewhere.
    pub(crate) fn written(&mut self, central: &Central, team: Option<&Team>) {
        self.left.written_from = None;
        self.look_at_written(0..central.committed(), team);
    }

    /// As [`Marker::written`], for a collection in steps: each step scans further objects until its time is
    /// over. Call it with the roots of the first step.
    pub(crate) fn written_in_steps(&mut self) {
        self.left.written_from = Some(0);
    }

    /// Goes on with [`Marker::written_in_steps`], for at least one window. Each window is armed after it was
    /// scanned. The last step scans objects that are written to after that, and windows that no other step
    /// reached.
    pub(super) fn go_on_with_written(&mut self, central: &Central, team: Option<&Team>) {
        while let Some(start) = self.left.written_from {
            let end = (start + WINDOW).min(central.committed());
            self.look_at_written(start..end, team);
            self.heap
                .tracking
                .watch_written(&self.heap.side, start..end);
            self.left.written_from = (end < central.committed()).then_some(end);
            if self.deadline.has_come() {
                return;
            }
        }
    }

    fn look_at_written(&mut self, superpages: Range<usize>, team: Option<&Team>) {
        let mut over = false;
        for at in superpages {
            self.look_if_written(Superpage(at as u32));
            if !over && self.stack.len() > PLENTY {
                over = !self.drain(team);
            }
        }
    }

    fn look_if_written(&mut self, superpage: Superpage) {
        let it = self.heap.side.descriptor(superpage);
        let object = Slot {
            superpage: self.heap.side.head(superpage),
            index: 0,
        };
        let flags = self.heap.side.descriptor(object.superpage).flags();
        let traced = flags & flag::TRACED != 0;
        let large = match it.usage() {
            Use::Free => return,
            Use::Small => false,
            Use::Head | Use::Tail => true,
        };
        // A traced object is scanned as a whole.
        let nothing =
            large && (!self.heap.side.is_marked(object) || traced && superpage != object.superpage);
        // A summarised superpage was not written to, even if it was read from swap meanwhile.
        let written = it.is_young() || it.has(flag::OUTWARD);
        let still = !written || it.has(flag::SUMMARISED);
        if nothing || flags & flag::OPAQUE != 0 || still && !traced {
            return;
        }
        if it.has(flag::OUTWARD) {
            // The scan raises it again.
            it.lower(flag::OUTWARD);
        }
        if it.has(flag::ABSENT) {
            // Its turn comes in address order.
            it.raise(flag::PENDING);
            self.heap.pending.store(true, Relaxed);
        } else if large && !traced {
            self.look_at_part_of_large(superpage);
        } else {
            self.each_marked(superpage);
        }
    }
}
