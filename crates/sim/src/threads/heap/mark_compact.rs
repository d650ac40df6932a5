//! Mark-compact: the live objects of the whole heap are marked, then moved together.

use super::{Collection, Collector, Kind, Place, Space};

/// All of the heap is one space.
#[derive(Debug)]
pub(super) struct MarkCompact(Space);

impl MarkCompact {
    pub(super) fn new(heap: u64) -> MarkCompact {
        MarkCompact(Space::new(heap))
    }
}

impl Collector for MarkCompact {
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
