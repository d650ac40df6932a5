//! A collector: what it is asked, and what it answers.

use std::num::NonZeroU64;

/// Where an object is, as its collector knows it; the object keeps it from allocation to death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(NonZeroU64);

impl Place {
    /// The place of a number that its collector chose: any but the greatest.
    pub(crate) const fn new(number: u64) -> Place {
        // One more, so that `Option<Place>` is no larger than a place.
        Place(NonZeroU64::MIN.saturating_add(number))
    }

    /// That number.
    pub(super) fn number(self) -> u64 {
        self.0.get() - 1
    }
}

/// Which part of the heap a collection examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The young objects.
    Minor,
    /// The young objects, and some of the regions that hold old ones.
    Mixed,
    /// All of it.
    Full,
}

/// The work of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The part of the heap that it examined.
    pub kind: Kind,
    /// Bytes that it marked or copied: those of the objects that it found alive, each once. This is the
    /// collection work of the paper's section 5.2.
    pub work: u64,
    /// The part of the work that was marked where it lay. The rest was copied.
    pub marked: u64,
    /// The part of what was marked that was then moved together.
    pub compacted: u64,
    /// Bytes of dead and live objects that were swept.
    pub swept: u64,
    /// Bytes that are marked while the threads go on after this collection. No pause contains that.
    pub concurrent: u64,
    /// Bytes of dead objects whose room can be used again.
    pub freed: u64,
}

impl Collection {
    /// One that copies what it finds alive.
    pub(crate) fn copying(kind: Kind, work: u64, freed: u64) -> Collection {
        Collection {
            kind,
            work,
            marked: 0,
            compacted: 0,
            swept: 0,
            concurrent: 0,
            freed,
        }
    }

    /// One that marks all that is alive, and moves it together.
    pub(super) fn compacting(work: u64, freed: u64) -> Collection {
        Collection {
            marked: work,
            compacted: work,
            ..Collection::copying(Kind::Full, work, freed)
        }
    }
}

/// A heap under one collection algorithm.
///
/// The calls: [`Collector::allocate`] for each object; when it finds no room [`Collector::collect`], and
/// again, and at last `collect` with `all`. [`Collector::died`] comes once for each object, at any time after
/// its allocation.
pub trait Collector {
    /// Room for an object of `size` bytes, or nothing where a collection is needed.
    fn allocate(&mut self, size: u64) -> Option<Place>;

    /// The object of `size` bytes in this place is dead. Its room is free after the next collection that
    /// examines it.
    fn died(&mut self, place: Place, size: u64);

    /// Collects because an object of `size` bytes found no room: as little as the algorithm allows, or with
    /// `all` the whole heap.
    fn collect(&mut self, size: u64, all: bool) -> Collection;

    /// Bytes in use, dead or alive.
    fn used(&self) -> u64;

    /// Bytes that no object uses, and that not every object could: in cells and regions that are larger than
    /// what is in them. Nothing where objects lie close together.
    fn fragmented(&self) -> u64 {
        0
    }

    /// The heap is of `heap` bytes from now on. Nothing moves: where more is in use than that, nothing has
    /// room until a collection has found enough that is dead.
    fn resize(&mut self, heap: u64);
}
