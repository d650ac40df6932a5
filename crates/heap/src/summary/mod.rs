//! Summaries: what the objects of a superpage refer to, kept at the side while the superpage is in
//! swap, so that a collection need not read it. They take the place of the paper's bookmarks and
//! incoming counters (3.2 to 3.4).
//!
//! A summary lists the slots that the superpage's marked objects refer to. If that takes more than
//! [`SUMMARY`](crate::side::SUMMARY) bytes, it lists groups of neighbouring granules instead, as
//! large as necessary. The slots referred to are then *bookmarked*: a group stands for those of its
//! slots that have a bookmark from any summary.
//!
//! A summary is valid until the superpage is written to. An object that was not marked when the
//! summary was made cannot have been referred to since: nobody had its address, and to store it
//! somebody would have had to write to the superpage.

pub(crate) mod codec;
mod store;

use crate::address::{GRANULE, Superpage};
use crate::side::Side;
pub(crate) use codec::Groups;
use codec::Plan;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use store::Store;
pub(crate) use store::UNIT;

/// Sizes of groups to try, as powers of two of granules: one granule, then from 1 KiB up.
const SHIFTS: [u8; 13] = [0, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20];

/// The summaries of one heap. Markers use them at the same time.
#[derive(Default)]
pub(crate) struct Summaries {
    store: Store,
    /// Whether some slot may have a bookmark.
    bookmarks: AtomicBool,
    /// The size of groups that fitted last, as an index into [`SHIFTS`].
    guess: AtomicUsize,
}

impl Summaries {
    /// Stores what a superpage's objects refer to. `targets` are the granules at which the slots
    /// begin, in any order; this sorts them. False if there is no room.
    pub(crate) fn put(&self, side: &Side, superpage: Superpage, targets: &mut [u64]) -> bool {
        self.drop_of(side, superpage);
        targets.sort_unstable();
        let Some((size, plan)) = self.plan(targets) else {
            return false;
        };
        let Some(place) = self.store.take(side, plan.bytes()) else {
            return false;
        };
        codec::write(targets, plan, self.store.bytes(side, place));
        side.descriptor(superpage).summary.store(place, Relaxed);
        if size > 0 {
            self.bookmark(side, targets);
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
        let guess = self.guess.load(Relaxed).clamp(1, SHIFTS.len() - 1);
        let fits = match try_size(guess) {
            Some(fits) => (1..guess).rev().map_while(try_size).last().or(Some(fits)),
            None => (guess + 1..SHIFTS.len()).find_map(try_size),
        }?;
        self.guess.store(fits.0, Relaxed);
        Some(fits)
    }

    fn bookmark(&self, side: &Side, targets: &[u64]) {
        self.bookmarks.store(true, Relaxed);
        for &target in targets {
            let start = side.heap() + target as usize * GRANULE;
            if let Some((slot, _)) = side.resolve(start) {
                let word = &side.bookmarks(slot.superpage)[usize::from(slot.index) / 64];
                let bit = 1 << (slot.index % 64);
                if word.load(Relaxed) & bit == 0 {
                    word.fetch_or(bit, Relaxed);
                }
            }
        }
    }

    /// The slots that a superpage's objects refer to; `None` if it has no summary.
    pub(crate) fn of<'a>(&self, side: &'a Side, superpage: Superpage) -> Option<Groups<'a>> {
        let place = side.descriptor(superpage).summary.load(Relaxed);
        (place != 0).then(|| codec::decode(self.store.bytes(side, place)))
    }

    /// Drops a superpage's summary, if it has one.
    pub(crate) fn drop_of(&self, side: &Side, superpage: Superpage) {
        let place = side.descriptor(superpage).summary.swap(0, Relaxed);
        if place != 0 {
            self.store.free(side, place);
        }
    }

    /// Drops the summaries of the first `superpages` superpages, and all bookmarks.
    pub(crate) fn drop_all(&self, side: &Side, superpages: usize) {
        let bookmarks = self.bookmarks.swap(false, Relaxed);
        for superpage in (0..superpages as u32).map(Superpage) {
            self.drop_of(side, superpage);
            if bookmarks {
                let words = side.bookmarks(superpage).iter();
                words.for_each(|word| word.store(0, Relaxed));
            }
        }
    }

    /// Bytes that all summaries take.
    pub(crate) fn bytes(&self) -> usize {
        self.store.used()
    }

    /// The addresses at which summaries were ever stored.
    pub(crate) fn range(&self, side: &Side) -> Range<usize> {
        self.store.range(side)
    }
}
