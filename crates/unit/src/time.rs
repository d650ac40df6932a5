//! Spans and points of time.

use crate::memory::saturating;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::time::Duration;

/// Nanoseconds of a microsecond.
pub const MICROSECOND: u64 = 1_000;
/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

const _: () = assert!(SECOND == 1_000 * MILLISECOND && MILLISECOND == 1_000 * MICROSECOND);

/// Nanoseconds: a span, or a point of a monotonic clock. Its arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// None; or the time at which the clock began.
    pub const ZERO: Nanos = Nanos(0);

    /// This many seconds.
    #[must_use]
    pub const fn seconds(number: u64) -> Nanos {
        Nanos(number.saturating_mul(SECOND))
    }

    /// This many milliseconds.
    #[must_use]
    pub const fn millis(number: u64) -> Nanos {
        Nanos(number.saturating_mul(MILLISECOND))
    }

    /// The same, for functions of the standard library.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

saturating!(Nanos);

/// The largest number where it does not fit, after 584 years.
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_span_is_the_same_as_a_duration(number: u64) {
            prop_assert_eq!(Nanos::from(Nanos(number).duration()), Nanos(number));
        }

        #[test]
        fn no_operation_wraps(a: u64, b: u64) {
            prop_assert!(Nanos(a) + Nanos(b) >= Nanos(a));
            prop_assert!(Nanos(a) - Nanos(b) <= Nanos(a));
        }
    }

    #[test]
    fn the_longest_span_is_no_error() {
        assert_eq!(Nanos::from(Duration::MAX), Nanos(u64::MAX));
        assert_eq!(Nanos::seconds(2), Nanos::millis(2_000));
    }
}
