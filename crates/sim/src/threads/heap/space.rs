//! One space of a heap whose objects are counted, not known.

/// One space of a heap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    /// Its size, bytes; less than what is in use after the heap has become smaller.
    pub(super) size: u64,
    /// Bytes of objects in it, dead or alive. Rises by allocation, falls by collection.
    pub(super) used: u64,
    /// Bytes of live objects in it.
    pub(super) live: u64,
}

impl Space {
    pub(super) fn new(size: u64) -> Space {
        Space {
            size,
            ..Space::default()
        }
    }

    /// Takes room for an object, if there is any.
    pub(super) fn take(&mut self, size: u64) -> bool {
        let fits = size <= self.room();
        if fits {
            self.used += size;
            self.live += size;
        }
        fits
    }

    /// Bytes that are free.
    pub(super) fn room(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    /// Frees what is dead. Returns how much that is, bytes.
    pub(super) fn sweep(&mut self) -> u64 {
        let dead = self.used - self.live;
        self.used = self.live;
        dead
    }
}

/// The largest power of two that is not above a number, and 1 for 0.
pub(super) fn power_of_two(most: u64) -> u64 {
    1 << most.max(1).ilog2()
}
