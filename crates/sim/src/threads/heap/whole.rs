//! Heaps without generations: one space takes all objects and is collected as a whole.

use super::{Collection, Collector, Kind, Place, Space};

/// The space that takes objects.
#[derive(Debug)]
pub(super) struct Whole(Space);

/// Mark-compact: all of the heap is one space, in which live objects are marked, then moved together.
pub(super) fn mark_compact(heap: u64) -> Whole {
    Whole(Space::new(heap))
}

/// Semi-space copying: objects are allocated in one half of the heap, and the live ones copied into the
/// other, which is empty between collections.
pub(super) fn semi_space(heap: u64) -> Whole {
    Whole(Space::new(heap / 2))
}

impl Collector for Whole {
    fn allocate(&mut self, size: u64) -> Option<Place> {
        self.0.take(size).then_some(Place(0))
    }

    fn died(&mut self, _place: Place, size: u64) {
        self.0.live -= size;
    }

    fn collect(&mut self, _size: u64, _all: bool) -> Collection {
        Collection {
            kind: Kind::Full,
            work: self.0.live,
            freed: self.0.sweep(),
        }
    }

    fn used(&self) -> u64 {
        self.0.used
    }
}
