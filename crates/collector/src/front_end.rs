//! The half of a collector that differs between languages: a front end stops threads, knows roots, and
//! answers for objects that die.

use crate::cycle::Record;
use plimsoll_heap::mark::{MarkWorkers, Marker, NoSpace, Space};
use plimsoll_heap::{Central, Heap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The points of a collection that a front end can hear of, in this order. A collection that marks
/// incrementally has the events from `BeforeStop` to `AfterStart` once for each of its pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The collection begins.
    Start,
    /// The world is about to be stopped.
    BeforeStop,
    /// The world is stopped.
    AfterStop,
    /// Marking begins.
    MarkStart,
    /// Marking has ended.
    MarkEnd,
    /// The world is about to be started.
    BeforeStart,
    /// The world runs.
    AfterStart,
    /// Dead objects are about to be reclaimed.
    ReclaimStart,
    /// Dead objects were reclaimed.
    ReclaimEnd,
    /// The collection has ended.
    End,
}

/// Settings of a front end, as one collection or one search for room takes them.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Until the next collection, one part in `divisor` of the bytes that a collection reads may be
    /// allocated. At least 1.
    pub divisor: usize,
    /// Bytes that may be allocated between two collections in any case.
    pub least: usize,
    /// Threads that a collection has to stop.
    pub threads: usize,
    /// How many collections of young objects may follow one another.
    pub young_in_a_row: u32,
    /// Each collection has to find all dead objects at once: it is neither of young objects nor
    /// incremental.
    pub whole: bool,
    /// The longest pause of incremental mode, if the program set one.
    pub pause: Option<Duration>,
    /// The number of markers that the user set, with the thread that collects among them; `None` for
    /// one marker for each processor.
    pub markers: Option<usize>,
    /// The heap may grow although a collection did not find enough.
    pub may_grow: bool,
    /// How often a collection is repeated before an allocation fails.
    pub retries: usize,
    /// Set in tests that put the collector under stress.
    pub stress: Option<Stress>,
}

/// Choices that a test makes in the place of the collector, where they are possible.
#[derive(Clone, Copy, Debug)]
pub struct Stress {
    /// The next collection is of young objects.
    pub young: bool,
    /// The next collection is incremental.
    pub incremental: bool,
    /// The duration of a step of incremental marking.
    pub step: Duration,
}

impl Default for Conditions {
    /// The defaults of libgc.
    fn default() -> Conditions {
        Conditions {
            divisor: 3,
            least: 1,
            threads: 1,
            young_in_a_row: 19,
            whole: false,
            pause: None,
            markers: None,
            may_grow: true,
            retries: 0,
            stress: None,
        }
    }
}

/// Facts that only a front end knows when a collection has marked everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scanned {
    /// Bytes of static data among the roots.
    pub roots: usize,
    /// Bytes of threads' stacks among the roots.
    pub stacks: usize,
    /// Bytes of dead objects that are kept for their finalizers.
    pub finalized: usize,
    /// The program has objects finalized.
    pub finalizes: bool,
}

/// A front end, as the collector calls it. The thread that collects makes all calls, and holds the lock
/// of the heap. The methods stand in the order of the calls.
///
/// While the world is stopped (from [`stop`](FrontEnd::stop) to [`start`](FrontEnd::start)), no method
/// may wait for another thread, nor allocate with `malloc`: a stopped thread may hold the lock of that.
///
/// `S`: the space of its objects beside the heap, if it has one.
pub trait FrontEnd<S: Space = NoSpace> {
    /// The settings now.
    fn conditions(&self) -> Conditions {
        Conditions::default()
    }

    /// Whether the collector may begin a collection by itself or, if one is `under_way`, go on with it.
    fn may_collect(&mut self, under_way: bool) -> bool {
        let _ = under_way;
        true
    }

    /// Counts the objects that this thread took from its bins as allocated.
    fn count_bins(&mut self, heap: &Heap) {
        let _ = heap;
    }

    /// Whether to collect rather than to let the heap grow, after `since` bytes were allocated, because
    /// a collection may release memory outside of the heap.
    fn is_crowded(&self, since: usize) -> bool {
        let _ = since;
        false
    }

    /// A collection begins, or its next step. From here to [`leave`](FrontEnd::leave), no call into the
    /// program may be left by an exception.
    fn enter(&mut self) {}

    /// An event of the collection. The front end may call the program; the call may fork.
    fn tell(&mut self, event: Event) {
        let _ = event;
    }

    /// Prepares for a pause with roots: the program's own callbacks, and room for what the world must not
    /// allocate while it is stopped.
    fn prepare(&mut self, heap: &Heap, central: &Central) {
        let _ = (heap, central);
    }

    /// Starts `count` threads that [help](MarkWorkers::help) to mark until they must return, which they must
    /// when the collector is dropped. Returns how many it started.
    fn start_workers(&mut self, workers: &Arc<MarkWorkers>, count: usize) -> usize {
        let _ = (workers, count);
        0
    }

    /// Stops all threads that use objects, and returns the time since when they stand still. With
    /// `roots`, this is the moment at which to read roots that may vanish later.
    fn stop(&mut self, heap: &Heap, roots: bool) -> Instant {
        let _ = (heap, roots);
        Instant::now()
    }

    /// Empties the bins of all threads. `begins`: the marks are still those of the last collection.
    fn retire(&mut self, heap: &Heap, central: &Central, begins: bool);

    /// Reports every root to the marker; with a space, ambiguous words before references. A check of the
    /// marks calls this a second time.
    fn roots(&mut self, marker: &mut Marker<'_, S>);

    /// The check of the marks, which tests ask for, found that the object at `start` was lost.
    fn lost(&mut self, start: usize) {
        panic!("the object at {start:#x} was lost");
    }

    /// Everything reachable is marked: decides about dead objects with finalizers and links.
    fn after_marking(&mut self, heap: &Heap, central: &Central, marker: &mut Marker<'_, S>) {
        let _ = (heap, central, marker);
    }

    /// Starts the threads again.
    fn start(&mut self) {}

    /// Before unmarked slots become free, while other threads run: dead objects may be kept
    /// ([`Heap::each_unmarked`]).
    fn before_reclaiming(&mut self, heap: &Heap, central: &Central) -> Scanned {
        let _ = (heap, central);
        Scanned::default()
    }

    /// The heap's size changed to `bytes`.
    fn resized(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// A collection ended.
    fn ended(&mut self, record: &Record) {
        let _ = record;
    }

    /// The collection that began with [`enter`](FrontEnd::enter), or its step, has ended.
    fn leave(&mut self) {}
}
