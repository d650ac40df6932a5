//! Sizes as people write them: `1500M`, `1.5G`, `50%`.
//!
//! Units are powers of 1024, as in cgroup files and systemd: `K`, `M`, `G`, `T`, each alone or
//! followed by `B` or `iB`, in either case. A bare number is bytes.

use plimsoll_unit::Bytes;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;

/// A size as somebody gave it. [`Size::bytes`] computes the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// This many bytes, fewer than 2^62.
    Bytes(u64),
    /// This part of the memory (of the machine, the container or the broker's domain), 0 to 1.
    Part(f64),
}

/// Why something is no size. Each says what to write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number and a known unit.
    #[error("`{}` is no size: {HOW}", .0.escape_debug())]
    NotASize(String),
    /// Below zero.
    #[error("`{}` is negative: give 0 or more", .0.escape_debug())]
    Negative(String),
    /// 2^62 bytes or more.
    #[error("`{0}` is more than any machine has: give at most 4194303T")]
    TooLarge(String),
    /// More than 100 %.
    #[error("`{0}` is more than there is: give 0% to 100%")]
    BadPart(String),
}

/// Advice on how to write a size.
const HOW: &str = "write bytes (1572864000), a number with K, M, G or T (1500M, 1.5G), or a part of the \
                   memory (50%)";
/// Sizes from here on are refused, bytes: the sum of two still fits into 63 bits.
const ENDS: u64 = 1 << 62;

impl Size {
    /// The amount where there is `capacity`.
    #[must_use]
    pub fn bytes(self, capacity: Bytes) -> Bytes {
        match self {
            Size::Bytes(bytes) => Bytes(bytes),
            Size::Part(part) => Bytes((capacity.0 as f64 * part) as u64),
        }
    }

    /// Whether it is nothing, whatever the capacity.
    #[must_use]
    pub fn is_zero(self) -> bool {
        matches!(self, Size::Bytes(0) | Size::Part(0.0))
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let trimmed = text.trim();
        let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'));
        let (number, unit) = trimmed.split_at(unit_at.unwrap_or(trimmed.len()));
        let not_a_size = || SizeError::NotASize(text.to_owned());
        let value: f64 = number.parse().map_err(|_| not_a_size())?;
        if value < 0.0 {
            return Err(SizeError::Negative(text.to_owned()));
        }
        let factor = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1u64 << 40,
            "%" if value <= 100.0 => return Ok(Size::Part(value / 100.0)),
            "%" => return Err(SizeError::BadPart(text.to_owned())),
            _ => return Err(not_a_size()),
        };
        // Whole numbers stay exact beyond 2^53.
        let whole: Option<u64> = number.parse().ok();
        let bytes = match whole {
            Some(whole) => whole.checked_mul(factor),
            None => Some((value * factor as f64).round() as u64),
        };
        match bytes {
            Some(bytes) if bytes < ENDS => Ok(Size::Bytes(bytes)),
            _ => Err(SizeError::TooLarge(text.to_owned())),
        }
    }
}

/// Shows bytes in at most five characters: `0`, `812K`, `15.2M`, `1.46G`.
pub struct Human(
    /// Bytes.
    pub u64,
);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0");
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 'K';
        for larger in ['M', 'G', 'T', 'P', 'E'] {
            // 1023.5 would be shown as 1024.
            if value < 1023.5 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let text = match (unit, value) {
            ('K', v) => format!("{:.0}K", v.max(1.0)),
            (_, v) if v < 9.995 => format!("{v:.2}{unit}"),
            (_, v) if v < 99.95 => format!("{v:.1}{unit}"),
            (_, v) => format!("{v:.0}{unit}"),
        };
        f.pad(&text)
    }
}

/// From a string, or a whole number of bytes.
impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HOW)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::custom(SizeError::Negative(value.to_string()))),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
        if value < ENDS {
            Ok(Size::Bytes(value))
        } else {
            Err(E::custom(SizeError::TooLarge(value.to_string())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1500M", 1500 * MIB),
            ("1500MiB", 1500 * MIB),
            ("1500 mb", 1500 * MIB),
            ("1.5G", 1536 * MIB),
            ("1.5GiB", 1536 * MIB),
            (" 2k ", 2048),
            ("4611686018427387903", ENDS - 1),
        ] {
            assert_eq!(text.parse(), Ok(Size::Bytes(bytes)), "{text}");
        }
        assert_eq!(
            "50%".parse::<Size>().unwrap().bytes(Bytes(1000)),
            Bytes(500)
        );
        for text in ["0", "0%", "0M", "-0"] {
            assert!(text.parse::<Size>().unwrap().is_zero(), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_and_says_what_to_write() {
        for text in [
            "", "M", "1.2.3M", "1..2", "1500X", "1e9", "1e99", "--5", "nan", "inf", "lots", "1\n2",
            "\n", "5 M M",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert_eq!(error, SizeError::NotASize(text.into()), "{text}");
            assert!(error.to_string().contains("write"), "{error}");
        }
        let refused = [
            ("-5M", SizeError::Negative("-5M".into())),
            ("101%", SizeError::BadPart("101%".into())),
            ("99999999T", SizeError::TooLarge("99999999T".into())),
            (
                "4611686018427387904",
                SizeError::TooLarge("4611686018427387904".into()),
            ),
        ];
        for (text, why) in refused {
            assert!(why.to_string().contains("give"), "{why}");
            assert_eq!(text.parse::<Size>(), Err(why));
        }
    }

    #[test]
    fn a_file_has_texts_or_whole_numbers() {
        let read = |json: &str| serde_json::from_str::<Size>(json).map_err(|e| e.to_string());
        assert_eq!(read("4096"), Ok(Size::Bytes(4096)));
        assert_eq!(read("\"1.5G\""), Ok(Size::Bytes(1536 * MIB)));
        for (json, why) in [
            ("-5", "negative"),
            ("4611686018427387904", "more than any machine has"),
            ("true", "write bytes"),
            ("\"many\"", "write bytes"),
        ] {
            assert!(read(json).unwrap_err().contains(why), "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,24}") {
            if let Ok(Size::Bytes(bytes)) = text.parse() {
                prop_assert!(bytes < ENDS);
            }
        }
    }
}
