//! The ground below a heap: memory that costs time, and a rule for the size of the heap.

use super::heap::Collection;

/// A collection that has ended. Sizes are bytes, times nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The work of the collector.
    pub collection: Collection,
    /// How long that takes by its work alone.
    pub pause: u64,
    /// In use after it, dead or alive.
    pub used: u64,
    /// Live after it.
    pub live: u64,
    /// Allocated since the beginning.
    pub allocated: u64,
}

/// The answer to a program after a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How long the collection waited for memory beside its work, nanoseconds.
    pub waited: u64,
    /// The size of the heap from now on, bytes; none where it stays.
    pub heap: Option<u64>,
}

/// The memory of one heap. Times are nanoseconds since the beginning of the program.
pub trait Ground {
    /// An object of `size` bytes took room, and `used` bytes are in use now. Returns how long its thread
    /// waited for memory, nanoseconds.
    fn took(&mut self, now: u64, used: u64, size: u64) -> u64;

    /// A collection that began at `now` has done its work.
    fn collected(&mut self, now: u64, collected: &Collected) -> Told;

    /// A heap of `heap` bytes has no room for an object of `size` bytes after a collection of all of it.
    /// Returns a larger heap, bytes, or nothing where the program has to fail.
    fn is_full(&mut self, heap: u64, size: u64) -> Option<u64>;
}

/// Memory is free, and the heap stays as large as it is.
impl Ground for () {
    fn took(&mut self, _now: u64, _used: u64, _size: u64) -> u64 {
        0
    }

    fn collected(&mut self, _now: u64, _collected: &Collected) -> Told {
        Told::default()
    }

    fn is_full(&mut self, _heap: u64, _size: u64) -> Option<u64> {
        None
    }
}
