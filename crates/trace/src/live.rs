//! The objects that live at a place of the recorded order.

use crate::numbered::Table;

/// The sizes of the objects that live, and how much they ever were.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sizes: Table<u64>,
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
        let Some(size) = self.sizes.remove(object) else {
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
