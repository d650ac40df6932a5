//! Collections whose marking is done in steps, between which the program runs (Boehm, Demers and
//! Shenker 1991, except that the world is stopped during each step). Writes to scanned superpages
//! are tracked. The last step has no time limit and works like a collection of young objects: it
//! scans again the marked objects that were written to since. [`collection`](crate::collection)
//! gives the order of the phases.
//!
//! When nothing is left to mark in memory, steps read pending superpages, as any collection does.
//! But a superpage that they summarise may have more objects marked later. So the look of the last
//! step does not trust these summaries (`GONE_PARTLY`).
//!
//! While the steps are under way, mark bits do not tell which slots are free. So threads allocate
//! from free superpages only; the sweep finds the holes again.

use crate::address::Superpage;
use crate::central::Central;
use crate::descriptor::flag;
use crate::heap::Heap;
use crate::tracking::Watch;
use std::sync::atomic::Ordering::Relaxed;

/// Superpages that only the front end can trace are scanned again in any case. They may be at most
/// one in `MOST` of all.
const MOST: usize = 4;

impl Heap {
    /// Begins a collection in steps. A whole collection clears the marks, a collection of young
    /// objects keeps them. Call it after the first look, while the marks are still those of the
    /// previous collection. Returns false, and clears no marks, if steps are not worthwhile or not
    /// possible.
    pub(crate) fn begin_steps(&self, central: &mut Central, young: bool) -> bool {
        if !self.can_step(central) {
            return false;
        }
        if let Some(notes) = self.stress.notes() {
            notes.remember_begun(&self.side, central.committed());
        }
        central.clear_partial();
        if !young {
            self.clear_marks(central);
        }
        self.stepping.store(true, Relaxed);
        true
    }

    /// Tracks writes from the end of the first step of a whole collection on. (Collections of young
    /// objects arm each superpage when they have scanned it.)
    pub(crate) fn end_first_step(&self, central: &Central) {
        self.tracking
            .watch(&self.side, central.committed(), Watch::All);
    }

    /// Whether a collection that begins now may be in steps: the kernel must track writes, and that
    /// must tell for most of the heap what has to be scanned again. The marks must be those of the
    /// previous collection.
    pub fn can_step(&self, central: &Central) -> bool {
        central.check(self);
        if !self.can_watch() {
            return false;
        }
        let (mut all, mut traced) = (0, 0);
        for at in 0..central.committed() as u32 {
            let flags = self.side.flags_of_object(Superpage(at));
            if flags & flag::OPAQUE == 0 && self.side.is_alive(Superpage(at)) {
                all += 1;
                traced += usize::from(flags & flag::TRACED != 0);
            }
        }
        traced * MOST <= all
    }

    /// Ends the steps: either the last step begins, or the steps are given up and a whole
    /// collection begins. Call it before the look, while the world is stopped. Superpages that were
    /// put off, and have no valid summary, have yet to be scanned.
    pub(crate) fn end_steps(&self, central: &Central) {
        for at in 0..central.committed() as u32 {
            let it = self.side.descriptor(Superpage(at));
            if it.flags() & (flag::PENDING | flag::SUMMARISED) == flag::PENDING {
                self.summaries.drop_of(&self.side, Superpage(at));
                it.forget_age();
            }
        }
        self.stepping.store(false, Relaxed);
        self.looked.store(true, Relaxed);
    }
}
