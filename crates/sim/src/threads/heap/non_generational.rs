//! Heaps without generations: one space takes all objects and is collected as a whole.

use super::collector::{Collection, Collector, Kind, Place};
use super::space::Space;

/// A heap without generations.
#[derive(Debug)]
pub(super) struct Whole {
    /// The space that takes objects.
    space: Space,
    /// How many spaces of this size the heap has: one is compacted, of two the live ones are copied into the
    /// other, which is empty between collections.
    parts: u64,
}

/// Mark-compact: all of the heap is one space, in which live objects are marked, then moved together.
pub(super) fn mark_compact(heap: u64) -> Whole {
    new(heap, 1)
}

/// Semi-space copying: objects are allocated in one half of the heap, and the live ones copied into the
/// other, which is empty between collections.
pub(super) fn semi_space(heap: u64) -> Whole {
    new(heap, 2)
}

fn new(heap: u64, parts: u64) -> Whole {
    Whole {
        space: Space::new(heap / parts),
        parts,
    }
}

impl Collector for Whole {
    fn allocate(&mut self, size: u64) -> Option<Place> {
        self.space.take(size).then_some(Place::new(0))
    }

    fn died(&mut self, _place: Place, size: u64) {
        self.space.live -= size;
    }

    fn collect(&mut self, _size: u64, _all: bool) -> Collection {
        let (work, freed) = (self.space.live, self.space.sweep());
        match self.parts {
            1 => Collection::compacting(work, freed),
            _ => Collection::copying(Kind::Full, work, freed),
        }
    }

    fn used(&self) -> u64 {
        self.space.used
    }

    fn resize(&mut self, heap: u64) {
        self.space.size = heap / self.parts;
    }
}
