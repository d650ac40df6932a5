//! Paging out before the kernel has to: what nobody wrote to between two collections goes first, and what holds no
//! references before what has to be summarised. What comes back soon was read, and is held for a while.

use super::marker::Marker;
use super::pending::{WINDOW, Window};
use crate::address::Superpage;
use crate::central::Central;
use crate::side::{Use, age, flag};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How far a heap's shedding has come; several may have a share in it.
#[derive(Default)]
pub(super) struct Shedding {
    /// The heap is passed twice: for what holds no references, and for what does. This is where nobody was yet.
    next: AtomicUsize,
    committed: AtomicUsize,
    /// Superpages that are still to go.
    left: AtomicUsize,
}

impl Shedding {
    pub(super) fn begin(&self, central: &Central, superpages: usize) {
        self.committed.store(central.committed(), Relaxed);
        self.left.store(superpages, Relaxed);
        self.next.store(0, Relaxed);
    }

    /// Superpages that were not found.
    pub(super) fn left(&self) -> usize {
        self.left.load(Relaxed)
    }

    /// A few neighbours that nobody looked at, and whether those without references are meant; none where no more has to go.
    fn portion(&self) -> Option<(std::ops::Range<usize>, bool)> {
        let committed = self.committed.load(Relaxed);
        let portions = committed.div_ceil(WINDOW);
        let at = self.next.fetch_add(1, Relaxed);
        if at >= 2 * portions || self.left() == 0 {
            return None;
        }
        let first = at % portions * WINDOW;
        Some((first..committed.min(first + WINDOW), at < portions))
    }

    fn take_one(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Relaxed, Relaxed, less).is_ok()
    }
}

impl Marker<'_> {
    /// Pages out so many superpages at most, and says how many. After the census, with the marks that it counted; the
    /// program may run, since what it writes to shows.
    pub fn shed(&mut self, central: &Central, superpages: usize) -> usize {
        let shedding = Shedding::default();
        shedding.begin(central, superpages);
        self.share_in(&shedding);
        superpages - shedding.left()
    }

    /// Does a share of it, until there is nothing left to do.
    pub(super) fn share_in(&mut self, shedding: &Shedding) {
        while let Some((portion, opaque)) = shedding.portion() {
            let mut window = Window::new();
            for at in portion {
                let superpage = Superpage(at as u32);
                // What stays needs no summary; one that was made for nothing does no harm.
                if shedding.left() > 0 && self.may_go(superpage, opaque) && shedding.take_one() {
                    window.push(superpage, true);
                }
            }
            self.page_out(&window);
        }
    }

    fn may_go(&mut self, superpage: Superpage, opaque: bool) -> bool {
        let it = self.heap.side.descriptor(superpage);
        if !(age::COLD..=age::OLDEST).contains(&it.age.load(Relaxed))
            || it.hold.load(Relaxed) > 0
            || it.usage() == Use::Free
        {
            return false;
        }
        let flags = self.heap.flags_of_object(superpage);
        if opaque || flags & flag::OPAQUE != 0 {
            return opaque && flags & flag::OPAQUE != 0;
        }
        flags & flag::TRACED == 0
            && self.heap.is_alive(superpage)
            && (it.summary.load(Relaxed) != 0 || self.summarise(superpage))
    }

    fn page_out(&self, window: &Window) {
        let heap = self.heap;
        self.each_run(window, |range| heap.os.page_out(range));
        for superpage in window.all() {
            let it = heap.side.descriptor(superpage);
            it.age.store(age::GONE, Relaxed);
        }
    }
}
