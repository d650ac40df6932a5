//! The order of a collection. Each part of one gives what the next part takes, so that no other
//! order compiles; whoever stops the world does what stands in brackets.
//!
//! 1. (The world is stopped.) [`Pause::begin`] opens the files that the kernel is asked by.
//! 2. [`Pause::empty`]: the bins of all threads are emptied. (A collection in steps that is not to
//!    be ended is [given up](Emptied::give_up).)
//! 3. [`Emptied::look`]: which superpages are absent, and which were written to. The marks are those
//!    of the collection before. If steps are under way, this is the pause of the last one.
//! 4. [`Looked::at_once`]: a whole collection clears all marks.
//! 5. [`Cleared::mark`]: everything that can be reached is marked. (Finalizers: [`Marker::contents`],
//!    [`Marker::revive`]. Tests: [`Marked::verify`].)
//! 6. [`Marked::end`]: writes show from here on, if they are to; the files are closed. (The world is
//!    started. What is dead may be kept: [`Heap::each_unmarked`].)
//! 7. [`Ended::count`]: fewer writes show, and what is not marked is free.
//! 8. ([`Marker::shed`] pages out what is cold.) [`Counted::end`].
//!
//! [`Marked::finish`] is 6 to 8 for whoever has nothing to do in between.
//!
//! A collection in steps has [`Looked::in_steps`] in the place of 4, and [`Step::mark`] ends that
//! pause. The world runs. Each further step is [`Pause::begin`], [`Pause::go_on`], [`Step::mark`].
//! The last one is a pause from 1 to 8.
//!
//! A value that is dropped gives the collection up where it is: files are closed, and the next
//! collection begins anew.

use crate::census::Census;
use crate::central::Central;
use crate::heap::Heap;
use crate::mark::{Crew, Marker};
use crate::residency::{Look, Residency};
use crate::verify::Difference;
use crate::watch::Watch;
use std::io;
use std::time::Instant;

/// The world stands still for a collection, or for a step of one. Files are open as long: others may
/// close what they do not know, and use its number for what we then would close.
pub struct Pause<'h> {
    heap: &'h Heap,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.heap.os.close();
    }
}

/// Bins are empty: what they held is found again by the census.
pub struct Emptied<'h> {
    pause: Pause<'h>,
}

/// It is known where superpages are, and which of them were written to.
pub struct Looked<'h> {
    pause: Pause<'h>,
    residency: Residency,
    young: bool,
    /// It is the last of several steps.
    last: bool,
}

/// Marks are those of what is known to live: none, or those that stay.
pub struct Cleared<'h> {
    pause: Pause<'h>,
    /// Marked objects are looked into where they were written to.
    rest: bool,
}

/// All that can be reached is marked.
pub struct Marked<'h> {
    pause: Pause<'h>,
}

/// The world may run. It has nothing to allocate from but what [`Central`] gives.
pub struct Ended<'h> {
    heap: &'h Heap,
}

/// What is not marked is free.
pub struct Counted<'h> {
    heap: &'h Heap,
    /// What the collection found.
    pub census: Census,
}

/// A step after which there is another.
pub struct Step<'h> {
    pause: Pause<'h>,
    /// It marks from roots, as the first; and what that is of.
    first: Option<Of>,
}

/// What a collection in steps is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Whole,
    Young,
}

/// What is done between marking and the end of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tail {
    /// Whose writes show until the next collection, if any.
    pub watch: Option<Watch>,
    /// Writes show no more where threads will allocate.
    pub unwatch: bool,
    /// Superpages to page out, at most.
    pub shed: usize,
}

impl<'h> Pause<'h> {
    /// When all threads are stopped.
    pub fn begin(heap: &'h Heap) -> Pause<'h> {
        heap.os.open();
        Pause { heap }
    }

    /// Has `retire` empty the bins of all threads ([`Bins::retire`](crate::Bins::retire)).
    pub fn empty(self, retire: impl FnOnce(&Heap)) -> Emptied<'h> {
        retire(self.heap);
        Emptied { pause: self }
    }

    /// Goes on with a collection in steps. If it is to `look`, it finds what the kernel took since
    /// the last look.
    pub fn go_on(self, central: &Central, look: bool) -> Step<'h> {
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
    /// Gives up the collection in steps that is under way, if one is: what begins is a whole one.
    pub fn give_up(&self, central: &Central, marker: &mut Marker<'_>, crew: Option<&Crew>) {
        if !self.pause.heap.is_stepping() {
            return;
        }
        self.pause.heap.end_steps(central);
        match crew {
            Some(crew) => crew.forget(marker),
            None => marker.forget(),
        }
    }

    /// Looks where the heap's pages are, and what of it was written to. Ends the steps that are
    /// under way; `what` says of what kind they were.
    pub fn look(self, central: &mut Central, what: Look) -> Looked<'h> {
        let heap = self.pause.heap;
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
    /// What was found.
    pub fn residency(&self) -> Residency {
        self.residency
    }

    /// All that is left to mark is marked in this pause.
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

    /// This is the first of several steps.
    ///
    /// # Errors
    /// It is the last, or the kernel does not track writes, or too much would be looked into twice:
    /// nothing was done.
    pub fn in_steps(self, central: &mut Central) -> Result<Step<'h>, Looked<'h>> {
        if self.last || !self.pause.heap.begin_steps(central, self.young) {
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
    /// Marks until then: from `roots`, where this is the first step, and from what the last one
    /// left. The pause is over then. False where there is work left for another step.
    pub fn mark(
        self,
        central: &Central,
        marker: &mut Marker<'_>,
        crew: Option<&Crew>,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> bool {
        let first = self.first;
        let begin = |marker: &mut Marker<'_>| {
            if first.is_some() {
                roots(marker);
                marker.uncollectable(central);
            }
            if first == Some(Of::Young) {
                marker.written_in_steps();
            }
        };
        let done = match crew {
            Some(crew) => crew.step(marker, central, until, begin),
            None => marker.step(central, until, begin),
        };
        if first == Some(Of::Whole) {
            self.pause.heap.end_first_step(central);
        }
        done
    }
}

impl<'h> Cleared<'h> {
    /// Marks from `roots`, with whoever is in the crew. Nobody else marks meanwhile.
    pub fn mark(
        self,
        central: &Central,
        marker: &mut Marker<'_>,
        crew: Option<&Crew>,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> Marked<'h> {
        mark_all(central, marker, crew, self.rest, roots);
        Marked { pause: self.pause }
    }
}

/// Marks from `roots`, and, where the `rest` counts as marked, from what was written of that.
fn mark_all(
    central: &Central,
    marker: &mut Marker<'_>,
    crew: Option<&Crew>,
    rest: bool,
    roots: impl FnOnce(&mut Marker<'_>),
) {
    let begin = |marker: &mut Marker<'_>| {
        roots(marker);
        marker.uncollectable(central);
        if rest {
            marker.written(central, crew);
        }
    };
    match crew {
        Some(crew) => crew.lead(marker, central, begin),
        None => marker.mark_from(central, begin),
    }
}

impl<'h> Marked<'h> {
    /// Marks a second time, everything from these roots and without summaries, and compares. The
    /// marks are then those of the second time.
    ///
    /// # Errors
    /// There is no memory for a copy of the marks: nothing was done.
    pub fn verify(
        &self,
        central: &mut Central,
        marker: &mut Marker<'_>,
        crew: Option<&Crew>,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> io::Result<Difference> {
        let before = self.pause.heap.begin_verification(central)?;
        mark_all(central, marker, crew, false, roots);
        Ok(self.pause.heap.end_verification(central, before))
    }

    /// Has writes show until the next look, and ends the pause.
    pub fn end(self, central: &Central, watch: Option<Watch>) -> Ended<'h> {
        let heap = self.pause.heap;
        if let Some(what) = watch {
            heap.watch(central, what);
        }
        Ended { heap }
    }

    /// All that is left of a collection; says also how many superpages were paged out.
    pub fn finish(
        self,
        central: &mut Central,
        marker: &mut Marker<'_>,
        tail: Tail,
    ) -> (Census, usize) {
        let counted = self.end(central, tail.watch).count(central, tail.unwatch);
        let shed = marker.shed(central, tail.shed);
        (counted.end(central), shed)
    }
}

impl<'h> Ended<'h> {
    /// Has no more writes show than are worth it, if that is wanted; and frees what is not marked.
    pub fn count(self, central: &mut Central, unwatch: bool) -> Counted<'h> {
        if unwatch {
            self.heap.unwatch(central);
        }
        Counted {
            heap: self.heap,
            census: self.heap.census(central),
        }
    }
}

impl Counted<'_> {
    /// The collection is over.
    pub fn end(self, central: &Central) -> Census {
        self.heap.evict_some(central.committed());
        self.census
    }
}
