//! Generational copying: the mature space is two halves, as in [`super::whole::semi_space`].

use super::NewRatio;
use super::generational::Generational;

/// Half of what is not the nursery takes what survives.
pub(super) fn new(heap: u64, ratio: NewRatio) -> Generational {
    Generational::new(heap, ratio, true)
}
