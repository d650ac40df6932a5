//! The phases of a collection, in their order: what the heap does, and when the front end is called.
//! Product, tests and fuzzers run this code. The types of [`collection`](plimsoll_heap::collection) enforce
//! the order of the heap's part.

use crate::cycle::Cycle;
use crate::front_end::{Event, FrontEnd};
use crate::workers::Workers;
use plimsoll_heap::collection::{Emptied, Ended, Looked, Marked, Pause, Step};
use plimsoll_heap::mark::{Marker, NoSpace, Space};
use plimsoll_heap::{Central, Heap, Watch};
use std::time::{Duration, Instant};

/// A heap, with all that marks in it. The thread that collects has it, and holds the lock of the front end.
pub struct Driver<'a, 'h, 'm, S: Space = NoSpace> {
    /// The heap.
    pub heap: &'h Heap,
    /// Its superpages.
    pub central: &'a mut Central,
    /// The marker of the thread that collects.
    pub marker: &'a mut Marker<'m, S>,
    /// The workers that mark together with it.
    pub workers: &'a Workers,
    /// The clock of the collection.
    pub cycle: &'a mut Cycle,
}

impl<'h, S: Space> Driver<'_, 'h, '_, S> {
    fn pause(&mut self, front: &mut impl FrontEnd<S>, roots: bool) -> Pause<'h> {
        front.tell(Event::BeforeStop);
        let begun = Instant::now();
        let stopped = front.stop(self.heap, roots);
        self.cycle.stopped(begun, stopped);
        front.tell(Event::AfterStop);
        front.tell(Event::MarkStart);
        Pause::begin(self.heap)
    }

    /// Stops the world, and empties all bins. `begins`: the marks are still those of the last collection.
    /// The front end is prepared.
    pub fn stop(&mut self, front: &mut impl FrontEnd<S>, begins: bool) -> Emptied<'h> {
        let pause = self.pause(front, true);
        pause.empty(|heap| front.retire(heap, self.central, begins))
    }

    /// Stops the world for a step that needs no roots. `look`: finds what was evicted since the last step.
    pub fn stop_for_step(&mut self, front: &mut impl FrontEnd<S>, look: bool) -> Step<'h> {
        self.pause(front, false).go_on(self.central, look)
    }

    /// Does a step, which takes `time` from when the world was stopped, and starts the world. True if nothing
    /// is left to mark.
    pub fn step(&mut self, front: &mut impl FrontEnd<S>, step: Step<'_>, time: Duration) -> bool {
        let until = self.cycle.until(time);
        let workers = self.workers.shared();
        let done = step.mark(self.central, self.marker, workers, until, |marker| {
            let begun = Instant::now();
            front.roots(marker);
            self.cycle.read_roots(begun);
        });
        self.start(front);
        self.cycle.suspend();
        done
    }

    /// Gives the steps up that are under way.
    pub fn give_up(&mut self, emptied: &Emptied<'_>) {
        emptied.give_up(self.central, self.marker, self.workers.shared());
    }

    /// Marks everything that is reachable. Nothing is freed before the value that is returned ends.
    pub fn mark(&mut self, front: &mut impl FrontEnd<S>, looked: Looked<'h>) -> Marked<'h> {
        let cleared = looked.at_once(self.central);
        let workers = self.workers.shared();
        cleared.mark(self.central, self.marker, workers, |marker| {
            let begun = Instant::now();
            front.roots(marker);
            self.cycle.read_roots(begun);
        })
    }

    /// Marks a second time, without summaries, if there is memory for that, and tells the front end if an
    /// object was lost.
    pub fn verify(&mut self, front: &mut impl FrontEnd<S>, marked: &Marked<'_>) {
        let workers = self.workers.shared();
        let found = marked.verify(self.central, self.marker, workers, |marker| {
            front.roots(marker);
        });
        if let Some(lost) = found.ok().and_then(|found| found.lost) {
            front.lost(lost);
        }
    }

    /// Ends the pause, and starts the world. Superpages are armed from here on, if they are to be watched.
    pub fn end(
        &mut self,
        front: &mut impl FrontEnd<S>,
        marked: Marked<'h>,
        watch: Option<Watch>,
    ) -> Ended<'h> {
        let ended = marked.end(self.central, watch);
        self.start(front);
        ended
    }

    fn start(&mut self, front: &mut impl FrontEnd<S>) {
        front.tell(Event::MarkEnd);
        front.tell(Event::BeforeStart);
        self.cycle.started();
        front.start();
        front.tell(Event::AfterStart);
    }
}
