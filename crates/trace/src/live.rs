//! The objects that live at a place of the recorded order.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads numbers of objects, which follow each other, over the buckets of a map. The numbers come from a
/// trace and may be chosen so that they collide; the map is slow then, but right.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // An odd number near 2^64 divided by the golden ratio; the fold brings high bits down.
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// A map by numbers of objects, monitors or threads.
pub(crate) type Map<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// The sizes of the objects that live, and how much they ever were.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sizes: Map<u64>,
    bytes: u64,
    largest: u64,
}

impl Live {
    /// An object is born; false if one with its number lives.
    #[inline]
    pub(crate) fn born(&mut self, object: u64, size: u64) -> bool {
        if self.sizes.insert(object, size).is_some() {
            return false;
        }
        self.bytes = self.bytes.saturating_add(size);
        self.largest = self.largest.max(self.bytes);
        true
    }

    /// An object dies; false if it does not live.
    #[inline]
    pub(crate) fn dies(&mut self, object: u64) -> bool {
        let Some(size) = self.sizes.remove(&object) else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(size);
        true
    }

    /// Objects that live.
    pub(crate) fn objects(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes of the objects that live.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes that ever lived at one time.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }
}
