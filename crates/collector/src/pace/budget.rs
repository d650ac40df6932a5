//! How much may be allocated from one collection to the next.

use plimsoll_unit::Bytes;

/// Bytes to allocate, counted from the end of the last collection.
#[derive(Default)]
pub(super) struct Budget {
    /// Bytes to allocate from the last collection to the next.
    allowance: usize,
    /// The memory ever allocated as of the last collection.
    allocated: Bytes,
}

impl Budget {
    /// `allowance` bytes may be allocated from now on, where `allocated` were ever allocated.
    pub(super) fn new(allowance: usize, allocated: Bytes) -> Budget {
        Budget {
            allowance,
            allocated,
        }
    }

    /// Bytes allocated since the last collection, of the `allocated` since the start.
    pub(super) fn since(&self, allocated: Bytes) -> usize {
        (allocated - self.allocated).length()
    }

    /// Bytes that are left when `allocated` was ever allocated. `None` if a request of `bytes` bytes does
    /// not fit, or if they are too few to go on: if none are left, no request fits.
    pub(super) fn left(&self, allocated: Bytes, bytes: usize) -> Option<usize> {
        let left = self.allowance.saturating_sub(self.since(allocated));
        (bytes.max(self.allowance / 8).max(1) <= left).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_are_as_good_as_none() {
        let budget = Budget::new(80, Bytes(100));
        assert_eq!(budget.since(Bytes(130)), 30);
        assert_eq!(budget.left(Bytes(130), 50), Some(50));
        assert_eq!(budget.left(Bytes(130), 51), None);
        assert_eq!(budget.left(Bytes(170), 0), Some(10));
        assert_eq!(budget.left(Bytes(171), 0), None);
        assert_eq!(Budget::default().left(Bytes(0), 0), None);
    }
}
