//! Amounts of memory.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Bytes of a kibibyte.
pub const KIB: u64 = 1 << 10;
/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes of a gibibyte.
pub const GIB: u64 = 1 << 30;
/// Bytes of a megabyte (10^6), as people write rates.
pub const MB: u64 = 1_000_000;
/// Bytes of the smallest page that the supported processors have. The running kernel's size is
/// `plimsoll_kernel::process::page_size`.
pub const PAGE: u64 = 4096;

const _: () = assert!(
    MIB == KIB * KIB && GIB == MIB * KIB,
    "each unit has 1024 of the one before"
);
const _: () = assert!(MIB.is_multiple_of(PAGE), "a mebibyte has whole pages");

/// An amount of memory in bytes. Its arithmetic saturates at 0 and at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Bytes(pub u64);

/// A number of pages of [`PAGE`] bytes. Its arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Pages(pub u64);

impl Bytes {
    /// None.
    pub const ZERO: Bytes = Bytes(0);
    /// More than any machine has: no bound.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// This many mebibytes.
    #[must_use]
    pub const fn mib(number: u64) -> Bytes {
        Bytes(number.saturating_mul(MIB))
    }

    /// The pages that hold them; a begun page counts.
    #[must_use]
    pub const fn pages(self) -> Pages {
        Pages(self.0.div_ceil(PAGE))
    }

    /// The same as a length in memory; the largest length where they are more.
    #[must_use]
    pub const fn length(self) -> usize {
        if self.0 > usize::MAX as u64 {
            return usize::MAX;
        }
        self.0 as usize
    }

    /// A part of them, rounded down: `times / of`. Nothing when `of` is 0.
    #[must_use]
    pub const fn part(self, times: u64, of: u64) -> Bytes {
        if of == 0 {
            return Bytes::ZERO;
        }
        let product = self.0 as u128 * times as u128 / of as u128;
        if product > u64::MAX as u128 {
            return Bytes::MAX;
        }
        Bytes(product as u64)
    }

    /// How far apart the two are.
    #[must_use]
    pub const fn abs_diff(self, other: Bytes) -> Bytes {
        Bytes(self.0.abs_diff(other.0))
    }

    /// How much more they are than `other`, if they are.
    #[must_use]
    pub const fn above(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_sub(other.0) {
            None | Some(0) => None,
            Some(more) => Some(Bytes(more)),
        }
    }
}

impl Pages {
    /// Their bytes.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE))
    }
}

macro_rules! saturating {
    ($($unit:ident),*) => { $(
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                $unit(self.0.saturating_add(other.0))
            }
        }

        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                $unit(self.0.saturating_sub(other.0))
            }
        }

        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }

        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: $unit) {
                *self = *self - other;
            }
        }

        impl Mul<u64> for $unit {
            type Output = $unit;
            fn mul(self, times: u64) -> $unit {
                $unit(self.0.saturating_mul(times))
            }
        }

        /// Rounded down. A divisor of 0 gives the largest number.
        impl Div<u64> for $unit {
            type Output = $unit;
            fn div(self, by: u64) -> $unit {
                $unit(self.0.checked_div(by).unwrap_or(u64::MAX))
            }
        }

        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(all: I) -> $unit {
                all.fold($unit(0), Add::add)
            }
        }
    )* };
}
pub(crate) use saturating;
saturating!(Bytes, Pages);

/// The bytes of a length in memory.
impl From<usize> for Bytes {
    fn from(length: usize) -> Bytes {
        Bytes(length as u64)
    }
}

/// In the largest unit that fits once, with one decimal: `1.5 GiB`, `300.0 MiB`, `12 bytes`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            GIB.. => (GIB, "GiB"),
            MIB.. => (MIB, "MiB"),
            KIB.. => (KIB, "KiB"),
            bytes => return write!(f, "{bytes} bytes"),
        };
        write!(f, "{:.1} {name}", self.0 as f64 / unit as f64)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn people_read_the_largest_unit() {
        assert_eq!(Bytes(12).to_string(), "12 bytes");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes::mib(300).to_string(), "300.0 MiB");
        assert_eq!(Bytes(3 * GIB / 2).to_string(), "1.5 GiB");
        assert_eq!(Pages(7).to_string(), "7 pages");
    }

    proptest! {
        #[test]
        fn no_operation_wraps(a: u64, b: u64, times: u64) {
            let (one, other) = (Bytes(a), Bytes(b));
            prop_assert!(one + other >= one.max(other));
            prop_assert!(one - other <= one);
            prop_assert_eq!(one.above(other).is_some(), one > other);
            prop_assert!(times == 0 || one * times >= one);
            prop_assert!(times == 0 || one / times <= one);
            prop_assert_eq!(one / 0, Bytes::MAX);
            prop_assert!(one.part(1, 2) <= one && one.part(times, 0) == Bytes::ZERO);
            prop_assert!(one.pages().bytes() >= one);
            prop_assert_eq!(Bytes::from(one.length()), one);
        }
    }
}
