//! Generational mark-compact: the mature space is one, as in [`super::whole::mark_compact`].

use super::Generational;

/// A third of the heap is the nursery; all of the rest takes what survives.
pub(super) fn new(heap: u64) -> Generational {
    let nursery = heap / 3;
    Generational::new(nursery, heap - nursery, false)
}
