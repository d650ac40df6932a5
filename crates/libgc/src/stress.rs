//! Stress: frequent collections. At each, a third of the heap counts as absent and some of it is
//! evicted, and the marks are compared with those of a marking that trusts no summaries.
//!
//! Only tests ask for it, by a library that is built on this one (`plimsoll-libgc-stressed`). The
//! installed library reads no variables for it.

use crate::abi::variables::GC_gc_no;
use crate::heap;
use plimsoll_collector::Stress;
use plimsoll_heap::Heap;
use plimsoll_heap::os::{Call, FaultInjection, Linux, Os};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The wishes of a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Collect at every n-th allocation that takes the lock; 0 for no stress.
    pub every: usize,
    /// Selects what is absent.
    pub seed: usize,
    /// Refuse every n-th call of the kernel that may be refused; 0 for none.
    pub refuse: usize,
}

static EVERY: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static SEED: AtomicUsize = AtomicUsize::new(0);
static REFUSE: AtomicUsize = AtomicUsize::new(0);

/// Asks for stress. To be called before the collector is made, by its first allocation.
pub fn ask(asked: Asked) {
    EVERY.store(asked.every, Relaxed);
    SEED.store(asked.seed, Relaxed);
    REFUSE.store(asked.refuse, Relaxed);
}

/// The kernel, or one that refuses every n-th call once the collector is made. It refuses fewer of
/// the calls by which the heap grows: six in a row have to succeed, and a program that gets no more
/// memory would end.
pub(crate) fn os() -> Box<dyn Os> {
    const RARELY: usize = 16;
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static COMMITS: AtomicUsize = AtomicUsize::new(0);
    match REFUSE.load(Relaxed) {
        0 => Box::new(Linux::new()),
        every => Box::new(FaultInjection::new(Linux::new(), move |call| {
            let (calls, every) = match call {
                Call::Commit => (&COMMITS, every.saturating_mul(RARELY)),
                _ => (&CALLS, every),
            };
            heap::is_ready() && calls.fetch_add(1, Relaxed).is_multiple_of(every)
        })),
    }
}

/// Turns stress on in a new heap, if it was asked for.
pub(crate) fn begin(heap: &Heap) {
    if !is_on() {
        return;
    }
    // Neighbouring seeds must give different sequences; 0 would turn it off.
    heap.stress((SEED.load(Relaxed) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
}

pub(crate) fn is_on() -> bool {
    EVERY.load(Relaxed) != 0
}

/// Whether this allocation has to collect.
pub(crate) fn is_due() -> bool {
    let every = EVERY.load(Relaxed);
    every != 0 && COUNT.fetch_add(1, Relaxed).is_multiple_of(every)
}

/// The choices for the next collection, if they are possible; `None` if stress is off. Some steps mark
/// next to nothing.
pub(crate) fn choices() -> Option<Stress> {
    let number = COUNT.load(Relaxed).checked_div(EVERY.load(Relaxed))?;
    Some(Stress {
        young: GC_gc_no.get().is_multiple_of(2),
        incremental: GC_gc_no.get() % 3 == 1,
        step: Duration::from_micros((number % 8 * 100) as u64),
    })
}
