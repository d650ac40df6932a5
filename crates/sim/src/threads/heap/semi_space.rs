//! Semi-space copying: objects are allocated in one half, and the live ones copied into the other.

use super::{Collection, Collector, Kind, Place, Space};

/// One half of the heap; the other one is empty between collections.
#[derive(Debug)]
pub(super) struct SemiSpace(Space);

impl SemiSpace {
    pub(super) fn new(heap: u64) -> SemiSpace {
        SemiSpace(Space::new(heap / 2))
    }
}

impl Collector for SemiSpace {
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
