//! Generational mark-compact: the mature space is one, as in [`super::whole::mark_compact`].

use super::NewRatio;
use super::generational::Generational;

/// All that is not the nursery takes what survives.
pub(super) fn new(heap: u64, ratio: NewRatio) -> Generational {
    Generational::new(heap, ratio, false)
}
