//! Generational copying: the mature space is two halves, as in [`super::whole::semi_space`].

use super::generational::{Generational, Sizes};

/// A third of the heap is the nursery; half of the rest takes what survives.
pub(super) fn new(heap: u64) -> Generational {
    Generational::new(heap, divide, true)
}

fn divide(heap: u64) -> Sizes {
    let nursery = heap / 3;
    (nursery, (heap - nursery) / 2)
}
