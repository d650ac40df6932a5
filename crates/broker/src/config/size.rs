//! Amounts of memory as people write them.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// An amount in bytes, or a part of the domain's capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A number of bytes.
    Bytes(u64),
    /// Percent of the capacity, 0 to 100.
    Percent(f64),
}

impl Amount {
    /// The amount in bytes, for a domain of `capacity` bytes.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => (capacity as f64 * percent / 100.0) as u64,
        }
    }
}

const HOW: &str = "write bytes (1500000000), a size (\"1500M\", \"1.5G\") or a part (\"75%\")";

/// Parses `1500M`, `1.5G`, `75%` or plain bytes; K, M, G and T are powers of 1024.
///
/// # Errors
/// A sentence that says what to write.
pub fn parse_amount(text: &str) -> Result<Amount, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{}` is no amount of memory: {HOW}", text.escape_debug()))?;
    if unit.trim() == "%" {
        return match number {
            0.0..=100.0 => Ok(Amount::Percent(number)),
            _ => Err(format!("{number}% is more than there is: give 0% to 100%")),
        };
    }
    let shift = match unit.trim().trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => {
            return Err(format!(
                "`{}` is no unit of memory: {HOW}",
                unit.escape_debug()
            ));
        }
    };
    let bytes = number * (1u64 << shift) as f64;
    match bytes < (1u64 << 62) as f64 {
        true => Ok(Amount::Bytes(bytes as u64)),
        false => Err(format!("`{text}` is more than any machine has: {HOW}")),
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HOW)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        parse_amount(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Amount, E> {
        u64::try_from(value)
            .ok()
            .filter(|bytes| *bytes < 1 << 62)
            .map(Amount::Bytes)
            .ok_or_else(|| E::custom(format!("{value} is no amount of memory: {HOW}")))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Amount, E> {
        match value < 1 << 62 {
            true => Ok(Amount::Bytes(value)),
            false => Err(E::custom(format!(
                "{value} is more than any machine has: {HOW}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(parse_amount("1500M"), Ok(Amount::Bytes(1500 << 20)));
        assert_eq!(parse_amount("1.5GiB"), Ok(Amount::Bytes(3 << 29)));
        assert_eq!(parse_amount("4096"), Ok(Amount::Bytes(4096)));
        assert_eq!(parse_amount("50%").map(|amount| amount.of(1000)), Ok(500));
    }

    #[test]
    fn absurd_amounts_say_what_to_write() {
        for text in [
            "",
            "-1",
            "lots",
            "1e99",
            "101%",
            "5X",
            "99999999999T",
            "1..2",
            "\n",
            "M",
        ] {
            let message = parse_amount(text).expect_err(text);
            assert!(
                message.contains("write") || message.contains("give"),
                "{message}"
            );
        }
    }
}
