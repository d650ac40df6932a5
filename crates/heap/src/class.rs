//! Size classes. A superpage holds slots of one class only, so a class is a slot size in granules
//! that divides the 1024 granules of a superpage with little left over.
//!
//! The paper bounds the waste (3.1): inside a slot at most 15 %, or a third for the largest
//! classes; at a superpage's end at most a quarter. Here it is, apart from the rounding to a
//! granule: inside a slot 14 %, except for the largest four classes (16, 20, 25 and 33 %), and at
//! the end 1.6 %. The tests below check the table against these bounds.

use crate::address::{GRANULE, GRANULES};

/// How many size classes there are.
pub const CLASSES: usize = 36;
/// Bytes of the largest small object. Larger objects have superpages of their own.
pub const LARGEST_SMALL: usize = GRANULES / 2 * GRANULE;

/// Granules of a slot, by class.
const SIZES: [u16; CLASSES] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 21, 24, 28, 32, 36, 42, 48, 56, 64, 73, 78, 85,
    93, 102, 113, 128, 146, 170, 204, 256, 341, 512,
];

/// The smallest class that fits an object, indexed by the object's granules.
const BY_GRANULES: [u8; GRANULES / 2 + 1] = {
    let mut table = [0; GRANULES / 2 + 1];
    let (mut class, mut granules) = (0, 1);
    while granules < table.len() {
        if granules > SIZES[class] as usize {
            class += 1;
        }
        table[granules] = class as u8;
        granules += 1;
    }
    table
};

/// Fractional bits of a reciprocal. Exact for all offsets and sizes: `GRANULES * GRANULES / 2 <
/// 2^20`.
const POINT: u32 = 20;

/// A size class by its number, small to large.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Class(pub(crate) u8);

impl Class {
    /// The class for an object of `bytes` bytes; an object of 0 bytes takes one granule. `None` if
    /// it is large.
    #[inline]
    pub fn of(bytes: usize) -> Option<Class> {
        let granules = bytes.div_ceil(GRANULE).max(1);
        BY_GRANULES.get(granules).map(|&class| Class(class))
    }

    /// Every class, small to large.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    /// Granules of its slots.
    #[inline]
    pub(crate) fn granules(self) -> usize {
        usize::from(SIZES[usize::from(self.0)])
    }

    /// Bytes of its slots.
    #[inline]
    pub fn bytes(self) -> usize {
        self.granules() * GRANULE
    }

    /// Slots in a superpage.
    #[inline]
    pub fn slots(self) -> usize {
        GRANULES / self.granules()
    }

    /// The factor by which [`slot_at`] multiplies a granule's number.
    pub(crate) fn reciprocal(self) -> u32 {
        ((1 << POINT) as u32).div_ceil(self.granules() as u32)
    }
}

/// The index of the slot that a granule of a superpage is in: divides by the slot's size with a
/// multiplication.
#[inline]
pub(crate) fn slot_at(granule: usize, reciprocal: u32) -> usize {
    (granule as u32 * reciprocal) as usize >> POINT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_size_has_the_smallest_class_that_holds_it() {
        for bytes in 0..=LARGEST_SMALL {
            let class = Class::of(bytes).unwrap();
            assert!(class.bytes() >= bytes, "{bytes}");
            if class.0 > 0 {
                assert!(Class(class.0 - 1).bytes() < bytes, "{bytes}");
            }
        }
        assert_eq!(Class::of(LARGEST_SMALL + 1), None);
        assert_eq!(Class::of(usize::MAX), None);
    }

    #[test]
    fn classes_waste_no_more_than_the_paper_allows() {
        let all: Vec<_> = Class::all().collect();
        for (at, class) in all.iter().enumerate() {
            let end = GRANULES - class.slots() * class.granules();
            assert!(end * 100 <= GRANULES * 2, "{class:?} leaves {end} granules");
            let below = if at == 0 { 0 } else { all[at - 1].granules() };
            let inside = class.granules() - below - 1;
            let most = if at + 4 < all.len() { 15 } else { 34 };
            assert!(inside * 100 <= class.granules() * most, "{class:?}");
        }
    }

    #[test]
    fn the_reciprocal_divides_exactly() {
        for class in Class::all() {
            for granule in 0..GRANULES {
                assert_eq!(
                    slot_at(granule, class.reciprocal()),
                    granule / class.granules()
                );
            }
        }
    }
}
