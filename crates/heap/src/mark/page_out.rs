//! Paging out before the kernel has to evict. Superpages that were not written to between two
//! collections go first; among them, those without references go before those that have to be
//! summarised. A superpage that soon came back was needed, and is held in memory for a while.
//!
//! One marker does all of it. For each page that was written to, the kernel flushes the mapping on
//! all processors that run the program's threads. A second marker would be one of them, and
//! interrupting it takes several times as long as everything else.

use super::marker::Marker;
use super::pending::{WINDOW, Window};
use super::space::Space;
use crate::address::Superpage;
use crate::central::Central;
use crate::descriptor::{Use, age, flag};
use std::sync::atomic::Ordering::Relaxed;

impl<S: Space> Marker<'_, S> {
    /// [`Counted::page_out`](crate::collection::Counted::page_out). The marks are those that the sweep
    /// counted.
    pub(crate) fn page_out_cold(&mut self, central: &Central, superpages: usize) -> usize {
        let mut paged_out = 0;
        for opaque in [true, false] {
            for first in (0..central.committed()).step_by(WINDOW) {
                if paged_out == superpages {
                    return paged_out;
                }
                let mut window = Window::new();
                for at in first..central.committed().min(first + WINDOW) {
                    let superpage = Superpage(at as u32);
                    // A superpage that stays needs no summary.
                    if paged_out < superpages && self.may_go(superpage, opaque) {
                        window.push(superpage, true);
                        paged_out += 1;
                    }
                }
                self.page_out(&window);
            }
        }
        paged_out
    }

    fn may_go(&mut self, superpage: Superpage, opaque: bool) -> bool {
        let it = self.heap.side.descriptor(superpage);
        if !(age::COLD..=age::OLDEST).contains(&it.age.load(Relaxed))
            || it.hold.load(Relaxed) > 0
            || it.usage() == Use::Free
        {
            return false;
        }
        let flags = self.heap.side.flags_of_object(superpage);
        if opaque || flags & flag::OPAQUE != 0 {
            return opaque && flags & flag::OPAQUE != 0;
        }
        flags & flag::TRACED == 0
            && self.heap.side.is_alive(superpage)
            && (it.summary.load(Relaxed) != 0 || self.summarise(superpage))
    }

    fn page_out(&self, window: &Window) {
        let heap = self.heap;
        self.each_run(window, |range| heap.side.os().page_out(range));
        for superpage in window.all() {
            let it = heap.side.descriptor(superpage);
            it.age.store(age::GONE, Relaxed);
        }
    }
}
