//! Stress: collections often, with a third of the heap taken for absent each time, and each marking checked against one
//! that trusts no summaries. `PLIMSOLL_GC_STRESS=n` has a collection at every n-th allocation that takes the lock.

use crate::collector::State;
use crate::report;
use plimsoll_heap::Heap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static EVERY: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Begins it.
pub(crate) fn begin(heap: &Heap, every: usize) {
    EVERY.store(every, Relaxed);
    heap.stress(0x9e37_79b9_7f4a_7c15);
}

/// Whether it is time for a collection.
pub(crate) fn is_due() -> bool {
    let every = EVERY.load(Relaxed);
    every != 0 && COUNT.fetch_add(1, Relaxed).is_multiple_of(every)
}

/// Checks what was just marked, with the world stopped; an object that was lost ends the program.
pub(crate) fn verify(heap: &Heap, state: &mut State, mark: impl FnOnce(&mut State)) {
    if EVERY.load(Relaxed) == 0 {
        return;
    }
    let Ok(before) = heap.begin_verification(&mut state.central) else {
        return;
    };
    mark(state);
    let found = heap.end_verification(&state.central, before);
    if let Some(lost) = found.lost {
        report::warn(c"The object at %p was lost\n", lost);
        report::abort(c"plimsoll libgc: a collection lost an object");
    }
}
