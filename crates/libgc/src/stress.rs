//! Stress: frequent collections. At each, a third of the heap counts as absent and some of it is
//! evicted, and the marks are compared with those of a marking that trusts no summaries.
//! `PLIMSOLL_GC_STRESS=n` collects at every n-th allocation that takes the lock; `PLIMSOLL_GC_SEED`
//! selects what is absent. `PLIMSOLL_GC_FAIL=n` refuses every n-th call of the kernel that may be
//! refused.

use crate::collector::{self, State};
use crate::mark::from_roots;
use crate::settings::GC_gc_no;
use crate::{environ, report};
use plimsoll_heap::Heap;
use plimsoll_heap::collection::Marked;
use plimsoll_heap::os::{Call, Linux, Os, Unlucky};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

static EVERY: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The kernel, or one that refuses every n-th call once the collector is made. It refuses fewer of
/// the calls by which the heap grows: six in a row have to succeed, and a program that gets no more
/// memory would end.
pub(crate) fn os() -> Box<dyn Os> {
    const RARELY: usize = 16;
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static COMMITS: AtomicUsize = AtomicUsize::new(0);
    match environ::number("PLIMSOLL_GC_FAIL").filter(|&every| every > 0) {
        Some(every) => Box::new(Unlucky::new(Linux::new(), move |call| {
            let (calls, every) = match call {
                Call::Commit => (&COMMITS, every.saturating_mul(RARELY)),
                _ => (&CALLS, every),
            };
            collector::is_ready() && calls.fetch_add(1, Relaxed).is_multiple_of(every)
        })),
        None => Box::new(Linux::new()),
    }
}

/// Turns stress on: a collection at every `every`-th allocation.
pub(crate) fn begin(heap: &Heap, every: usize, seed: usize) {
    EVERY.store(every, Relaxed);
    // Neighbouring seeds must give different sequences; 0 would turn it off.
    heap.stress((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
}

pub(crate) fn is_on() -> bool {
    EVERY.load(Relaxed) != 0
}

/// Whether this allocation has to collect.
pub(crate) fn is_due() -> bool {
    let every = EVERY.load(Relaxed);
    every != 0 && COUNT.fetch_add(1, Relaxed).is_multiple_of(every)
}

/// Whether the next collection should be of young objects, if possible. `None` if stress is off.
pub(crate) fn wants_young() -> Option<bool> {
    is_on().then(|| GC_gc_no.get().is_multiple_of(2))
}

/// Whether a collection should be made in steps, if possible. `None` if stress is off.
pub(crate) fn wants_steps() -> Option<bool> {
    is_on().then(|| GC_gc_no.get() % 3 == 1)
}

/// The time limit of a step; `None` if stress is off. Some steps mark next to nothing.
pub(crate) fn step() -> Option<Duration> {
    let every = EVERY.load(Relaxed);
    let number = COUNT.load(Relaxed).checked_div(every)?;
    Some(Duration::from_micros((number % 8 * 100) as u64))
}

/// Verifies the marks, if there is memory for that. A lost object ends the program. This thread's
/// registers are on its stack at `here`.
pub(crate) fn verify(marked: &Marked<'_>, state: &mut State, here: usize) {
    if !is_on() {
        return;
    }
    let found = from_roots(state, here, |central, marker, crew, roots| {
        marked.verify(central, marker, crew, roots)
    });
    if let Some(lost) = found.ok().and_then(|found| found.lost) {
        report::warn(c"The object at %p was lost\n", lost);
        report::abort(c"plimsoll libgc: a collection lost an object");
    }
}
