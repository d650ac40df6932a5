//! The heap of this process, once it is made. Queries about addresses need no lock.

use plimsoll_heap::Heap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static HEAP: OnceLock<Heap> = OnceLock::new();
/// Whether the collector of the heap is made, too.
static READY: AtomicBool = AtomicBool::new(false);

/// The heap, if it was made already.
#[inline(always)]
pub(crate) fn made() -> Option<&'static Heap> {
    HEAP.get()
}

/// Sets the heap, which is made only once.
pub(crate) fn set(heap: Heap) -> &'static Heap {
    HEAP.get_or_init(|| heap)
}

/// Whether the collector was made already.
pub(crate) fn is_ready() -> bool {
    READY.load(Relaxed)
}

/// Notes that the collector is made.
pub(crate) fn set_ready() {
    READY.store(true, Relaxed);
}
