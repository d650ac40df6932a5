//! Generational copying: the mature space is two halves, as in [`super::whole::semi_space`].

use super::Generational;

/// A third of the heap is the nursery; half of the rest takes what survives.
pub(super) fn new(heap: u64) -> Generational {
    let nursery = heap / 3;
    Generational::new(nursery, (heap - nursery) / 2, true)
}
