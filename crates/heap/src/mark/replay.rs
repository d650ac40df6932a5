//! Replaying summaries: using a superpage's summary in place of reading its objects.

use super::marker::Marker;
use super::space::Space;
use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::bits;
use crate::descriptor::{Use, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl<S: Space> Marker<'_, S> {
    /// Reaches the slots that a superpage's summary stands for.
    pub(super) fn replay(&mut self, superpage: Superpage) {
        let heap = self.heap;
        let Some(groups) = heap.summaries.of(&heap.side, superpage) else {
            return;
        };
        self.marking.replayed += 1;
        let granules = groups.granules() as usize;
        for first in groups {
            let start = heap.side.heap() + first as usize * GRANULE;
            if granules == 1 {
                self.word(start);
            } else {
                self.bookmarked(start..start + granules * GRANULE);
            }
        }
    }

    /// Reaches the bookmarked slots in a range of addresses. A whole superpage is done only once
    /// per collection, even if several summaries name it: bookmarks do not tell which summary set
    /// them.
    fn bookmarked(&mut self, range: Range<usize>) {
        let side = &self.heap.side;
        let end = range.end.min(self.heap.range().end);
        if range.start >= end {
            return;
        }
        if range.len() < SUPERPAGE {
            let superpage = side.superpage(range.start);
            return self.bookmarked_in(superpage, range.start..end);
        }
        let first = side.superpage(range.start).index();
        let last = side.superpage(end - 1).index();
        for (at, wanted) in bits::words(first, last + 1) {
            let word = &side.replayed(last + 1)[at];
            if word.load(Relaxed) & wanted == wanted {
                continue;
            }
            let mut due = wanted & !word.fetch_or(wanted, Relaxed);
            while due != 0 {
                let superpage = Superpage((at * 64) as u32 + due.trailing_zeros());
                // One superpage at a time: all at once would fill the stack.
                if !self.push_bookmarks(superpage) {
                    self.replay_bookmarks(superpage);
                }
                due &= due - 1;
            }
        }
    }

    /// Reaches all bookmarked slots of a superpage.
    pub(super) fn replay_bookmarks(&mut self, superpage: Superpage) {
        let start = self.heap.side.address(superpage);
        self.bookmarked_in(superpage, start..start + SUPERPAGE);
    }

    fn bookmarked_in(&mut self, superpage: Superpage, range: Range<usize>) {
        let side = &self.heap.side;
        let it = side.descriptor(superpage);
        let (slots, bytes) = match it.usage() {
            Use::Small => {
                let granules = usize::from(it.granules.load(Relaxed));
                (usize::from(it.slots.load(Relaxed)), granules * GRANULE)
            }
            Use::Head => (1, SUPERPAGE),
            Use::Free | Use::Tail => return,
        };
        let start = side.address(superpage);
        let first = (range.start - start).div_ceil(bytes);
        let end = (range.end - start).div_ceil(bytes).min(slots);
        let flags = it.flags() & !flag::PENDING;
        // An absent superpage is put off as a whole, however many of its objects are reached.
        let whole = it.usage() == Use::Small
            && flags & (flag::ABSENT | flag::UNCOLLECTABLE) == flag::ABSENT;
        let (bookmarks, marks) = (side.bookmarks(superpage), side.marks(superpage));
        let mut reached = 0;
        for (at, mask) in bits::words(first, end) {
            let mut due = bookmarks[at].load(Relaxed) & mask & !marks[at].load(Relaxed);
            if whole && due != 0 {
                reached += (due & !marks[at].fetch_or(due, Relaxed)).count_ones();
                continue;
            }
            while due != 0 {
                let index = (at * 64) as u16 + due.trailing_zeros() as u16;
                self.reach(Slot { superpage, index }, flags);
                due &= due - 1;
            }
        }
        self.marking.objects += u64::from(reached);
        if reached > 0 && flags & flag::OPAQUE == 0 {
            self.absent(superpage, flags);
        }
    }
}
