//! The ground below a heap: memory that costs time, and a rule for the size of the heap.

use super::heap::Collection;
use plimsoll_unit::{Bytes, Nanos};

/// A collection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The work of the collector.
    pub collection: Collection,
    /// How long that takes by its work alone.
    pub pause: Nanos,
    /// In use after it, dead or alive.
    pub used: Bytes,
    /// Live after it.
    pub live: Bytes,
    /// Allocated since the beginning.
    pub allocated: Bytes,
}

/// The answer to a program after a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How long the collection waited for memory beside its work.
    pub waited: Nanos,
    /// The size of the heap from now on; none where it stays.
    pub heap: Option<Bytes>,
}

/// The memory of one heap. Points of time are since the beginning of the program.
pub trait Ground {
    /// An object of this size took room, and `used` is in use now. Returns how long its thread waited
    /// for memory.
    fn took(&mut self, now: Nanos, used: Bytes, size: Bytes) -> Nanos;

    /// A collection that began at `now` has done its work.
    fn collected(&mut self, now: Nanos, collected: &Collected) -> Told;

    /// A heap of this size has no room for an object of `size` after a collection of all of it.
    /// Returns a larger heap, or nothing where the program has to fail.
    fn is_full(&mut self, heap: Bytes, size: Bytes) -> Option<Bytes>;
}

/// Memory is free, and the heap stays as large as it is.
impl Ground for () {
    fn took(&mut self, _now: Nanos, _used: Bytes, _size: Bytes) -> Nanos {
        Nanos::ZERO
    }

    fn collected(&mut self, _now: Nanos, _collected: &Collected) -> Told {
        Told::default()
    }

    fn is_full(&mut self, _heap: Bytes, _size: Bytes) -> Option<Bytes> {
        None
    }
}
