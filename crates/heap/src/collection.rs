//! The order of a collection. Each phase returns the value that the next one takes, so no other order
//! compiles. The caller, which stops the world, does the work in brackets.
//!
//! 1. (The world is stopped.) [`Pause::begin`] opens the files by which the kernel is queried.
//! 2. [`Pause::empty`]: the bins of all threads are emptied. (Steps that are not to be finished are
//!    [given up](Emptied::give_up).)
//! 3. [`Emptied::look`]: finds out which superpages are absent and which were written to. The marks
//!    are those of the previous collection. If steps are under way, this pause is that of the last
//!    step.
//! 4. [`Looked::at_once`]: a whole collection clears all marks.
//! 5. [`Cleared::mark`]: everything reachable is marked. (Finalizers: [`Marker::contents`],
//!    [`Marker::revive`]. Tests: [`Marked::verify`].)
//! 6. [`Marked::end`]: superpages are armed from here on, if they are to be watched; the files are
//!    closed. (The world is started. Dead objects may be kept: [`Heap::each_unmarked`].)
//! 7. [`Ended::count`]: some superpages are disarmed, and unmarked slots become free.
//! 8. [`Counted::page_out`]: cold superpages are summarised, and paged out.
//! 9. [`Counted::end`].
//!
//! [`Marked::finish`] does 6 to 9 for callers that have nothing to do in between.
//!
//! A collection in steps calls [`Looked::in_steps`] in place of 4, and [`Step::mark`] ends that
//! pause. Then the world runs. Each further step is [`Pause::begin`], [`Pause::go_on`],
//! [`Step::mark`]. The last step is a pause with all phases from 1 to 9.
//!
//! All are given the same [`Central`], and a [`Marker`] of the same heap.
//!
//! Dropping one of these values gives the collection up at that point: the files are closed, and
//! the next collection begins anew.

use crate::address::Slot;
use crate::central::Central;
use crate::heap::Heap;
use crate::mark::{MarkWorkers, Marker, Space};
use crate::residency::{Look, Residency};
use crate::sweep::SweepStatistics;
use crate::tracking::{self, Watch};
use crate::verify::Difference;
use std::io;
use std::time::Instant;

/// The world is stopped for a collection, or for one step of it. The files are open only that long:
/// other code may close descriptors that it does not know, and reuse the number, which we would
/// then close.
pub struct Pause<'h> {
    heap: &'h Heap,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.heap.side.os().close();
    }
}

/// All bins are empty. The sweep finds again what they held.
pub struct Emptied<'h> {
    pause: Pause<'h>,
}

/// It is known which superpages are absent and which were written to.
pub struct Looked<'h> {
    pause: Pause<'h>,
    /// Result of the look at the pages.
    residency: Residency,
    /// Whether this is a collection of young objects.
    young: bool,
    /// Whether this is the last of several steps.
    last: bool,
}

/// The marks are those of objects known to be alive: none, or those that sticky mark bits keep.
pub struct Cleared<'h> {
    pause: Pause<'h>,
    /// Whether marked objects count as alive, so that only written ones are scanned again.
    rest: bool,
}

/// Everything reachable is marked.
pub struct Marked<'h> {
    pause: Pause<'h>,
}

/// The world may run. It can allocate only from what [`Central`] gives.
pub struct Ended<'h> {
    heap: &'h Heap,
}

/// Unmarked slots are free.
pub struct Counted<'h> {
    heap: &'h Heap,
    /// The counts of the sweep.
    pub swept: SweepStatistics,
}

/// A step that is not the last.
pub struct Step<'h> {
    pause: Pause<'h>,
    /// For the first step, which marks from roots: what the collection covers. `None` for later
    /// steps.
    first: Option<Of>,
}

/// The scope of a collection in steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Whole,
    Young,
}

/// The work to do between marking and the end of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tail {
    /// Which superpages to watch until the next collection, if any.
    pub watch: Option<Watch>,
    /// Whether to disarm superpages into which threads will allocate.
    pub unwatch: bool,
    /// The most superpages to page out.
    pub page_out: usize,
}

impl<'h> Pause<'h> {
    /// Begins a pause. All threads are stopped.
    pub fn begin(heap: &'h Heap) -> Pause<'h> {
        heap.side.os().open();
        Pause { heap }
    }

    /// Calls `retire`, which must empty the bins of all threads
    /// ([`Bins::retire`](crate::Bins::retire)).
    pub fn empty(self, retire: impl FnOnce(&Heap)) -> Emptied<'h> {
        retire(self.heap);
        Emptied { pause: self }
    }

    /// Goes on with a collection in steps. If `look`, finds what the kernel evicted since the last
    /// look.
    pub fn go_on(self, central: &Central, look: bool) -> Step<'h> {
        central.check(self.heap);
        if look {
            self.heap.look_again(central);
        }
        Step {
            pause: self,
            first: None,
        }
    }
}

impl<'h> Emptied<'h> {
    /// Gives up the collection in steps that is under way, if there is one: the collection that
    /// begins is then a whole one.
    pub fn give_up<S: Space>(
        &self,
        central: &Central,
        marker: &mut Marker<'_, S>,
        workers: Option<&MarkWorkers>,
    ) {
        central.check(self.pause.heap);
        if !self.pause.heap.is_stepping() {
            return;
        }
        self.pause.heap.end_steps(central);
        match workers {
            Some(workers) => workers.forget(marker),
            None => marker.forget(),
        }
    }

    /// Finds out where the heap's pages are, and which were written to. Ends the steps that are
    /// under way; `what` then says of what kind they were.
    pub fn look(self, central: &mut Central, what: Look) -> Looked<'h> {
        let heap = self.pause.heap;
        central.check(heap);
        let last = heap.is_stepping();
        if last {
            heap.end_steps(central);
        }
        Looked {
            residency: heap.look(central, what),
            pause: self.pause,
            young: what.young,
            last,
        }
    }
}

impl<'h> Looked<'h> {
    /// Result of the look at the pages.
    pub fn residency(&self) -> Residency {
        self.residency
    }

    /// Chooses a collection in one pause: everything left to mark is marked now.
    pub fn at_once(self, central: &mut Central) -> Cleared<'h> {
        let rest = self.young || self.last;
        if !rest {
            self.pause.heap.clear_marks(central);
        }
        Cleared {
            pause: self.pause,
            rest,
        }
    }

    /// Chooses a collection in steps; this is the first one.
    ///
    /// # Errors
    /// This is the last step, or the kernel does not track writes, or too much would be scanned
    /// twice, or objects [move](Space::MOVES). Nothing was done, and the value is returned.
    pub fn in_steps<S: Space>(
        self,
        central: &mut Central,
        _marker: &Marker<'_, S>,
    ) -> Result<Step<'h>, Looked<'h>> {
        if S::MOVES || self.last || !self.pause.heap.begin_steps(central, self.young) {
            return Err(self);
        }
        let of = if self.young { Of::Young } else { Of::Whole };
        Ok(Step {
            pause: self.pause,
            first: Some(of),
        })
    }
}

impl Step<'_> {
    /// Marks until the time `until`: from `roots` in the first step, and from what the previous
    /// step left. Ends the pause. False if there is work left for another step.
    pub fn mark<S: Space>(
        self,
        central: &Central,
        marker: &mut Marker<'_, S>,
        workers: Option<&MarkWorkers>,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> bool {
        let first = self.first;
        let begin = |marker: &mut Marker<'_, S>| {
            if first.is_some() {
                roots(marker);
                marker.uncollectable(central);
            }
            if first == Some(Of::Young) {
                marker.written_in_steps();
            }
        };
        let done = match workers {
            Some(workers) => workers.step(marker, central, until, begin),
            None => marker.step(central, until, begin),
        };
        if first == Some(Of::Whole) {
            self.pause.heap.end_first_step(central);
        }
        done
    }
}

impl<'h> Cleared<'h> {
    /// Marks from `roots`, together with the mark workers. No other marker runs meanwhile.
    pub fn mark<S: Space>(
        self,
        central: &Central,
        marker: &mut Marker<'_, S>,
        workers: Option<&MarkWorkers>,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> Marked<'h> {
        mark_all(central, marker, workers, self.rest, roots);
        Marked { pause: self.pause }
    }
}

/// Marks from `roots` and, if the `rest` counts as marked, from those marked objects that were
/// written to.
fn mark_all<S: Space>(
    central: &Central,
    marker: &mut Marker<'_, S>,
    workers: Option<&MarkWorkers>,
    rest: bool,
    roots: impl FnOnce(&mut Marker<'_, S>),
) {
    let begin = |marker: &mut Marker<'_, S>| {
        roots(marker);
        marker.uncollectable(central);
        if rest {
            marker.written(central, workers.map(MarkWorkers::team));
        }
    };
    match workers {
        Some(workers) => workers.lead(marker, central, begin),
        None => marker.mark_from(central, begin),
    }
}

impl<'h> Marked<'h> {
    /// Marks a second time, everything from these roots and without summaries, and compares. The
    /// marks are then those of the second marking.
    ///
    /// # Errors
    /// There is no memory for a copy of the marks. Nothing was done.
    pub fn verify<S: Space>(
        &self,
        central: &mut Central,
        marker: &mut Marker<'_, S>,
        workers: Option<&MarkWorkers>,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> io::Result<Difference> {
        let heap = self.pause.heap;
        let verifier = &heap.stress.verifier;
        let before = verifier.begin(&heap.side, central.committed())?;
        heap.clear_marks(central);
        mark_all(central, marker, workers, false, roots);
        let is_looked_at = |slot: Slot, word| {
            let map = heap.map(slot.superpage);
            map.is_none_or(|map| map.has(word))
        };
        Ok(verifier.end(&heap.side, central.committed(), before, is_looked_at))
    }

    /// Arms superpages until the next look, and ends the pause.
    pub fn end(self, central: &Central, watch: Option<Watch>) -> Ended<'h> {
        let heap = self.pause.heap;
        if let Some(what) = watch {
            let committed = central.committed();
            heap.tracking.watch(&heap.side, committed, what);
        }
        Ended { heap }
    }

    /// Does all that is left of a collection. Also returns how many superpages were paged out.
    pub fn finish<S: Space>(
        self,
        central: &mut Central,
        marker: &mut Marker<'_, S>,
        tail: Tail,
    ) -> (SweepStatistics, usize) {
        let counted = self.end(central, tail.watch).count(central, tail.unwatch);
        let paged_out = counted.page_out(central, marker, tail.page_out);
        (counted.end(central), paged_out)
    }
}

impl<'h> Ended<'h> {
    /// If `unwatch`, disarms superpages that are not worth watching. Frees unmarked slots.
    pub fn count(self, central: &mut Central, unwatch: bool) -> Counted<'h> {
        if unwatch {
            tracking::unwatch(&self.heap.side, central.committed());
        }
        Counted {
            heap: self.heap,
            swept: self.heap.sweep(central),
        }
    }
}

impl Counted<'_> {
    /// Summarises cold superpages, and pages out at most `superpages` of them. Returns how many it did. The
    /// program may run, because writes to armed superpages show.
    pub fn page_out<S: Space>(
        &self,
        central: &Central,
        marker: &mut Marker<'_, S>,
        superpages: usize,
    ) -> usize {
        marker.page_out_cold(central, superpages)
    }

    /// Ends the collection and returns the statistics of its sweep.
    pub fn end(self, central: &Central) -> SweepStatistics {
        let heap = self.heap;
        heap.stress.evict_some(&heap.side, central.committed());
        self.swept
    }
}
