//! The standing of a principal: its weight, priority and maximum. A number or text becomes one of
//! these types where it enters (command line, configuration, message, the broker's own file), and
//! is not checked again.
//!
//! | | range | default |
//! |---|---|---|
//! | [`Weight`] | 1 to 10000 | 100 |
//! | [`Priority`] | -100 to 100, a higher class is served first | 0 |
//! | [`Max`] | 1 MiB to 2^62 bytes, for it and all its descendants | [`Max::NONE`] |
//!
//! Where a maximum is stated, `null` or absent means none. Where it is changed, 0 means none
//! ([`Max::or_none`]) and absent means unchanged. The client's builder and the C interface take 0 for
//! none, too. The decisions have [`Bytes::MAX`] for no maximum: [`Max::NONE`], and `max` in `policy::shares`.

use crate::checked::refused;
use crate::varlink::{ErrorName, WireError};
use plimsoll_unit::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

macro_rules! ranged {
    ($(#[$documentation:meta])* $name:ident($number:ty), $what:literal, $error:ident,
     $least:literal to $most:literal, else $default:literal) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name($number);

        impl $name {
            /// The smallest.
            pub const LEAST: $name = $name($least);
            /// The largest.
            pub const MOST: $name = $name($most);

            /// Takes the number if it is in range.
            ///
            /// # Errors
            #[doc = concat!("`", stringify!($error), "`.")]
            pub fn new(number: impl Into<i64>) -> Result<$name, WireError> {
                let number = number.into();
                match <$number>::try_from(number) {
                    Ok(number @ $least..=$most) => Ok($name(number)),
                    _ => Err(WireError::new(
                        ErrorName::$error,
                        format!("{} {number} is out of range: {}", $what, $name::how()),
                    )),
                }
            }

            /// The nearest valid value.
            #[must_use]
            pub fn nearest(number: i64) -> $name {
                let number = number.clamp(i64::from($name::LEAST.0), i64::from($name::MOST.0));
                $name(<$number>::try_from(number).unwrap_or($default))
            }

            /// As a number.
            #[must_use]
            pub const fn get(self) -> $number {
                self.0
            }

            fn how() -> String {
                format!("give {} to {}", $name::LEAST, $name::MOST)
            }
        }

        /// The value of a principal for which none was given.
        impl Default for $name {
            fn default() -> $name {
                $name($default)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = WireError;

            fn from_str(text: &str) -> Result<$name, WireError> {
                let number = text.parse::<i64>().map_err(|_| {
                    let message = format!("`{text}` is no {}: {}", $what, $name::how());
                    WireError::new(ErrorName::$error, message)
                })?;
                $name::new(number)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                $name::new(i64::deserialize(deserializer)?).map_err(refused)
            }
        }
    };
}

ranged! {
    /// The weight of a principal relative to its siblings: 1 to 10000.
    Weight(u32), "weight", BadWeight, 1 to 10_000, else 100
}

ranged! {
    /// The class of a principal: -100 to 100; a higher one is served first.
    Priority(i32), "priority", BadPriority, -100 to 100, else 0
}

/// A weight and a priority, each optional, as given in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Weight relative to siblings.
    pub weight: Option<Weight>,
    /// Priority class among siblings.
    pub priority: Option<Priority>,
}

impl Standing {
    /// Checks numbers as written.
    ///
    /// # Errors
    /// `BadWeight` or `BadPriority`.
    pub fn read(weight: Option<i64>, priority: Option<i64>) -> Result<Standing, WireError> {
        Ok(Standing {
            weight: weight.map(Weight::new).transpose()?,
            priority: priority.map(Priority::new).transpose()?,
        })
    }
}

/// Maximum in bytes of a principal with its descendants, or [`Max::NONE`], which is above all
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Max(Bytes);

impl Max {
    /// No maximum.
    pub const NONE: Max = Max(Bytes::MAX);
    /// Smallest useful and largest accepted maximum.
    const LEAST: Bytes = Bytes::mib(1);
    const MOST: Bytes = Bytes(1 << 62);

    /// A maximum of this many bytes.
    ///
    /// # Errors
    /// `BadMax`.
    pub fn new(bytes: Bytes) -> Result<Max, WireError> {
        if (Max::LEAST..=Max::MOST).contains(&bytes) {
            return Ok(Max(bytes));
        }
        let message = format!(
            "max {} is out of range: give bytes from {} (1 MiB), or leave it out for no bound",
            bytes.0,
            Max::LEAST.0
        );
        Err(WireError::new(ErrorName::BadMax, message))
    }

    /// As [`Max::new`], but 0 removes the maximum, for messages that change one.
    ///
    /// # Errors
    /// `BadMax`.
    pub fn or_none(bytes: Bytes) -> Result<Max, WireError> {
        match bytes {
            Bytes::ZERO => Ok(Max::NONE),
            _ => Max::new(bytes),
        }
    }

    /// The bytes, if there is a maximum.
    #[must_use]
    pub fn bytes(self) -> Option<Bytes> {
        Some(self.0).filter(|_| self != Max::NONE)
    }

    /// Upper bound: [`Bytes::MAX`] when there is no maximum.
    #[must_use]
    pub const fn cap(self) -> Bytes {
        self.0
    }
}

/// No maximum.
impl Default for Max {
    fn default() -> Max {
        Max::NONE
    }
}

impl Serialize for Max {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bytes().map(|bytes| bytes.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Max {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Max, D::Error> {
        let bytes = Option::<u64>::deserialize(deserializer)?;
        bytes
            .map_or(Ok(Max::NONE), |bytes| Max::new(Bytes(bytes)))
            .map_err(refused)
    }
}

/// A maximum in a message that changes one: absent means unchanged, 0 removes it.
pub(crate) mod change {
    use super::{Max, refused};
    use plimsoll_unit::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(max: &Option<Max>, to: S) -> Result<S::Ok, S::Error> {
        max.map(|max| max.bytes().unwrap_or_default().0)
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Max>, D::Error> {
        let bytes = Option::<u64>::deserialize(from)?;
        let max = bytes.map(|bytes| Max::or_none(Bytes(bytes)));
        max.transpose().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Register, Set};
    use serde_json::json;

    #[test]
    fn numbers_and_texts_are_taken_in_their_range() {
        for number in [-101, -100, 0, 1, 100, 101, 10_000, 10_001, i64::MAX] {
            let (weight, priority) = (Weight::new(number), Priority::new(number));
            assert_eq!(weight.is_ok(), (1..=10_000).contains(&number), "{number}");
            assert_eq!(priority.is_ok(), (-100..=100).contains(&number), "{number}");
            assert_eq!(number.to_string().parse(), weight);
            assert_eq!(number.to_string().parse(), priority);
            let nearest = Weight::nearest(number).get();
            assert_eq!(i64::from(nearest), number.clamp(1, 10_000));
        }
        let refused = "heavy".parse::<Weight>().unwrap_err();
        assert_eq!(refused.message, "`heavy` is no weight: give 1 to 10000");
        assert_eq!(refused.name, ErrorName::BadWeight);
        let refused = Priority::new(101).unwrap_err().message;
        assert_eq!(refused, "priority 101 is out of range: give -100 to 100");
    }

    #[test]
    fn no_maximum_is_one_thing_and_above_all_others() {
        assert_eq!(Max::or_none(Bytes::ZERO), Ok(Max::NONE));
        assert_eq!(Max::NONE.bytes(), None);
        assert!(Max::NONE > Max::new(Bytes(1 << 62)).unwrap());
        assert_eq!(Max::default().cap(), Bytes::MAX);
        for bytes in [0, 1, (1 << 20) - 1, (1 << 62) + 1, u64::MAX] {
            assert_eq!(Max::new(Bytes(bytes)).unwrap_err().name, ErrorName::BadMax);
        }
        assert!(Max::or_none(Bytes(1)).is_err());
    }

    /// The format is unchanged since before the type existed: none is `null` where stated, 0 where
    /// changed.
    #[test]
    fn a_maximum_keeps_its_form_in_json() {
        let register = |max| Register {
            max,
            ..Register::default()
        };
        let mib = Max::new(Bytes::mib(1)).unwrap();
        let written = |max| serde_json::to_value(register(max)).unwrap()["max"].clone();
        assert_eq!(
            (written(mib), written(Max::NONE)),
            (json!(1 << 20), json!(null))
        );
        for (text, max) in [
            ("{\"max\":null}", None),
            ("{}", None),
            ("{\"max\":0}", Some(Max::NONE)),
        ] {
            let set: Set = serde_json::from_str(text).unwrap();
            assert_eq!(set.max, max, "{text}");
        }
        let set = |max| {
            serde_json::to_value(Set {
                max,
                ..Set::default()
            })
            .unwrap()["max"]
                .clone()
        };
        assert_eq!(
            [set(None), set(Some(Max::NONE)), set(Some(mib))],
            [json!(null), json!(0), json!(1 << 20)]
        );
        assert!(serde_json::from_str::<Register>("{\"name\":\"n\",\"max\":0}").is_err());
    }
}
