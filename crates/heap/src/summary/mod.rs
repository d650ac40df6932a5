//! Summaries: what the objects of a superpage refer to, kept at the side while the superpage is in
//! swap, so that a collection need not read it. They take the place of the paper's bookmarks and
//! incoming counters (3.2 to 3.4).
//!
//! A summary lists the slots that the superpage's marked objects refer to. If that takes more than
//! [`SUMMARY`] bytes, it lists groups of neighbouring granules instead, as large as necessary. The
//! slots referred to are then *bookmarked*: a group stands for those of its slots that have a
//! bookmark from any summary.
//!
//! A summary is valid until the superpage is written to. An object that was not marked when the
//! summary was made cannot have been referred to since: nobody had its address, and to store it
//! somebody would have had to write to the superpage.

pub(crate) mod codec;
mod store;

use crate::address::{GRANULE, Superpage};
use crate::heap::Heap;
use crate::side::Side;
pub(crate) use codec::Groups;
use codec::Plan;
use std::sync::atomic::Ordering::Relaxed;
pub(crate) use store::{Store, UNIT};

/// The most bytes of a superpage's summary: 1.6 % of a superpage.
pub(crate) const SUMMARY: usize = 256;

/// Sizes of groups to try, as powers of two of granules: one granule, then from 1 KiB up.
const SHIFTS: [u8; 13] = [0, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20];

impl Heap {
    /// Stores what a superpage's objects refer to. `targets` are the granules at which the slots
    /// begin, in any order; this sorts them. False if there is no room.
    pub(crate) fn summarise(&self, superpage: Superpage, targets: &mut [u64]) -> bool {
        self.drop_summary(superpage);
        targets.sort_unstable();
        let Some((size, plan)) = self.plan(targets) else {
            return false;
        };
        let Some(place) = self
            .summaries
            .take(self.os.as_ref(), &self.side, plan.bytes())
        else {
            return false;
        };
        codec::write(targets, plan, self.summaries.bytes(&self.side, place));
        let it = self.side.descriptor(superpage);
        it.summary.store(place, Relaxed);
        self.remember_spoken(superpage);
        if size > 0 {
            self.bookmark(targets);
        }
        true
    }

    /// The smallest groups that fit, as an index into [`SHIFTS`], and the plan. The size that
    /// fitted last is tried first.
    fn plan(&self, targets: &[u64]) -> Option<(usize, Plan)> {
        let try_size = |size: usize| Some((size, codec::plan(targets, SHIFTS[size])?));
        if let Some(slots) = try_size(0) {
            return Some(slots);
        }
        let guess = self.summaries.guess().clamp(1, SHIFTS.len() - 1);
        let fits = match try_size(guess) {
            Some(fits) => (1..guess).rev().map_while(try_size).last().or(Some(fits)),
            None => (guess + 1..SHIFTS.len()).find_map(try_size),
        }?;
        self.summaries.set_guess(fits.0);
        Some(fits)
    }

    fn bookmark(&self, targets: &[u64]) {
        self.summaries.bookmarked();
        for &target in targets {
            let start = self.side.heap() + target as usize * GRANULE;
            if let Some((slot, _)) = self.side.resolve(start) {
                let word = &self.side.bookmarks(slot.superpage)[usize::from(slot.index) / 64];
                let bit = 1 << (slot.index % 64);
                if word.load(Relaxed) & bit == 0 {
                    word.fetch_or(bit, Relaxed);
                }
            }
        }
    }

    /// What a superpage's objects refer to, or `None` if it has no summary.
    pub(crate) fn summary(&self, superpage: Superpage) -> Option<Groups<'_>> {
        let place = self.side.descriptor(superpage).summary.load(Relaxed);
        (place != 0).then(|| codec::decode(self.summaries.bytes(&self.side, place)))
    }

    pub(crate) fn drop_summary(&self, superpage: Superpage) {
        let place = self.side.descriptor(superpage).summary.swap(0, Relaxed);
        if place != 0 {
            self.summaries.free(&self.side, place);
        }
    }

    /// Drops the summaries of the first `superpages` superpages, and all bookmarks.
    pub(crate) fn drop_summaries(&self, superpages: usize) {
        let bookmarks = self.summaries.forget_bookmarks();
        for at in 0..superpages as u32 {
            self.drop_summary(Superpage(at));
            if bookmarks {
                clear(&self.side, Superpage(at));
            }
        }
    }

    /// Bytes that all summaries take.
    pub fn summary_bytes(&self) -> usize {
        self.summaries.used()
    }
}

fn clear(side: &Side, superpage: Superpage) {
    for word in side.bookmarks(superpage) {
        word.store(0, Relaxed);
    }
}
