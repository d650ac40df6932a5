//! Generational mark-compact: the mature space is one, as in [`super::whole::mark_compact`].

use super::generational::{Generational, Sizes};

/// A third of the heap is the nursery; all of the rest takes what survives.
pub(super) fn new(heap: u64) -> Generational {
    Generational::new(heap, divide, false)
}

fn divide(heap: u64) -> Sizes {
    let nursery = heap / 3;
    (nursery, heap - nursery)
}
