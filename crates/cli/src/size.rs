//! Sizes as people write them (`1500M`, `1.5G`, `50%`) and read them (`1.46G`).
//!
//! Units are powers of 1024, as in cgroup files and systemd: `K`, `M`, `G`, `T`, each alone or
//! followed by `B` or `iB`, in either case. A bare number is bytes.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// A size as the user gave it. [`Size::bytes`] computes the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub enum Size {
    /// This many bytes.
    Bytes(u64),
    /// This part of the machine's (or container's) memory, above 0 and at most 1.
    Part(f64),
}

/// A size in a TOML file: a string, or a whole number of bytes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Number(i64),
}

/// Why a text is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number and a known unit.
    #[error(
        "`{0}` is no size: write bytes (1572864000), a number with K, M, G or T (1500M, 1.5G), or a part \
         of the memory (50%)"
    )]
    NotASize(String),
    /// Below zero.
    #[error("`{0}` is negative: a size is 0 or more")]
    Negative(String),
    /// More than 2^63 bytes.
    #[error("`{0}` is more than any machine has: the most is 8388607T")]
    TooLarge(String),
    /// Outside 0 % to 100 %.
    #[error("`{0}` is no part of the memory: give more than 0% and at most 100%")]
    BadPart(String),
}

/// 2^63 bytes. Sizes from here on are rejected.
const MOST: f64 = 9_223_372_036_854_775_808.0;

impl Size {
    /// The size in bytes on a machine (or in a container) of `capacity` bytes.
    pub fn bytes(self, capacity: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Part(part) => (capacity as f64 * part) as u64,
        }
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
            "" | "b" => 1.0,
            "k" | "kb" | "kib" => 1024.0,
            "m" | "mb" | "mib" => 1024.0 * 1024.0,
            "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
            "t" | "tb" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            "%" if value > 0.0 && value <= 100.0 => return Ok(Size::Part(value / 100.0)),
            "%" => return Err(SizeError::BadPart(text.to_owned())),
            _ => return Err(not_a_size()),
        };
        // Whole numbers stay exact beyond 2^53.
        let whole = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor as u64));
        match whole.filter(|&bytes| i64::try_from(bytes).is_ok()) {
            Some(bytes) => Ok(Size::Bytes(bytes)),
            None if value * factor >= MOST => Err(SizeError::TooLarge(text.to_owned())),
            None => Ok(Size::Bytes((value * factor).round() as u64)),
        }
    }
}

impl TryFrom<Written> for Size {
    type Error = SizeError;

    fn try_from(written: Written) -> Result<Size, SizeError> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Number(n) => u64::try_from(n)
                .map(Size::Bytes)
                .map_err(|_| SizeError::Negative(n.to_string())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1500M", 1500 * MIB),
            ("1500MiB", 1500 * MIB),
            ("1500 mb", 1500 * MIB),
            ("1.5G", 1536 * MIB),
            (" 2k ", 2048),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(text.parse(), Ok(Size::Bytes(bytes)), "{text}");
        }
        assert_eq!("50%".parse::<Size>().unwrap().bytes(1000), 500);
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in [
            "", "M", "1.2.3M", "1500X", "1e9", "--5", "nan", "inf", "1\n2", "5 M M",
        ] {
            assert_eq!(
                text.parse::<Size>(),
                Err(SizeError::NotASize(text.into())),
                "{text}"
            );
        }
        assert_eq!(
            "-5M".parse::<Size>(),
            Err(SizeError::Negative("-5M".into()))
        );
        assert_eq!("0%".parse::<Size>(), Err(SizeError::BadPart("0%".into())));
        assert_eq!(
            "101%".parse::<Size>(),
            Err(SizeError::BadPart("101%".into()))
        );
        assert_eq!(
            "99999999T".parse::<Size>(),
            Err(SizeError::TooLarge("99999999T".into()))
        );
    }

    #[test]
    fn shows_at_most_five_characters() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1K"),
            (812 * 1024, "812K"),
            (MIB - 1, "1.00M"),
            (15 * MIB + MIB / 5, "15.2M"),
            (1500 * MIB, "1.46G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(Human(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>7}", Human(1500 * MIB)), "  1.46G");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,24}") {
            let _ = text.parse::<Size>();
        }

        #[test]
        fn any_size_fits_its_column(bytes: u64) {
            prop_assert!(Human(bytes).to_string().len() <= 5);
        }

        #[test]
        fn what_is_shown_can_be_read_back_within_a_hundredth(bytes in 1024u64..1 << 60) {
            let shown = Human(bytes).to_string();
            let unit_known = !shown.ends_with(['P', 'E']);
            if unit_known {
                let Size::Bytes(read) = shown.parse().unwrap() else { panic!("{shown}") };
                let error = (read as f64 - bytes as f64).abs() / bytes as f64;
                prop_assert!(error < 0.01 || bytes < MIB, "{shown}: {error}");
            }
        }
    }
}
