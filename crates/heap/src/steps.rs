//! Collections whose marking is done in steps, between which the program runs (Boehm, Demers and
//! Shenker 1991, but with the world stopped in each step). Writes to what was looked into are
//! tracked; the last one, which needs all the time that it takes, is like a collection of young
//! objects: it looks again into what is marked and was written to since. In which order all of this
//! is done says [`collection`](crate::collection).
//!
//! When there is nothing left to mark in memory, steps read what is pending, as any collection
//! does; but what they summarise may yet have more of it marked. So the look of the last step does
//! not trust these summaries (`GONE_PARTLY`).
//!
//! Mark bits do not tell what is free meanwhile. So threads allocate where nothing is: holes are
//! found again by the census.

use crate::address::Superpage;
use crate::central::Central;
use crate::heap::Heap;
use crate::side::flag;
use crate::watch::Watch;
use std::sync::atomic::Ordering::Relaxed;

/// What only the front end can look into is looked into again in any case; it may be one in so many
/// superpages.
const MOST: usize = 4;

impl Heap {
    /// Whether marking in steps is under way.
    pub fn is_stepping(&self) -> bool {
        self.stepping.load(Relaxed)
    }

    /// Begins a collection in steps: a whole one clears marks, one of young objects leaves them.
    /// After the first look, with the marks of the collection before. False, and no marks are
    /// cleared, where that is not worth it, or cannot be.
    pub(crate) fn begin_steps(&self, central: &mut Central, young: bool) -> bool {
        if !self.can_step(central) {
            return false;
        }
        self.remember_begun(central.committed());
        central.clear_partial();
        if !young {
            self.clear_marks(central);
        }
        self.stepping.store(true, Relaxed);
        true
    }

    /// Has writes show from the end of the first step of a whole collection on. (Those of young
    /// objects have what they looked into show.)
    pub(crate) fn end_first_step(&self, central: &Central) {
        self.watch(central, Watch::All);
    }

    /// Whether a collection that begins now may be in steps: the kernel tracks writes, and they
    /// tell of most of the heap what is to be looked into again. With the marks of the collection
    /// before.
    pub fn can_step(&self, central: &Central) -> bool {
        if !self.can_watch() {
            return false;
        }
        let (mut all, mut traced) = (0, 0);
        for at in 0..central.committed() as u32 {
            let flags = self.flags_of_object(Superpage(at));
            if flags & flag::OPAQUE == 0 && self.is_alive(Superpage(at)) {
                all += 1;
                traced += usize::from(flags & flag::TRACED != 0);
            }
        }
        traced * MOST <= all
    }

    /// The last step begins; or there will be none, and a whole collection does. Before the look
    /// that it begins with; the world is stopped. What was put off, and has no summary that stands
    /// for it, is to be looked into yet.
    pub(crate) fn end_steps(&self, central: &Central) {
        for at in 0..central.committed() as u32 {
            let it = self.side.descriptor(Superpage(at));
            if it.flags() & (flag::PENDING | flag::SUMMARISED) == flag::PENDING {
                self.drop_summary(Superpage(at));
                it.forget_age();
            }
        }
        self.stepping.store(false, Relaxed);
        self.looked.store(true, Relaxed);
    }
}
