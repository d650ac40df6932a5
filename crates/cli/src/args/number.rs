//! Numbers of the command line, and what is said of those that are none.

use plimsoll_wire::checks;
use plimsoll_wire::size::Size;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A number of a range. The error says which numbers are taken, as with the other functions here.
pub fn within<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text
            .trim()
            .parse()
            .ok()
            .filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| {
            format!("`{text}` is out of range: give a whole number, {least} to {most}")
        })
    }
}

/// A number without an upper bound.
pub fn from(least: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| format!("`{text}` is no whole number from {least} on"))
    }
}

/// The number of a process.
pub fn pid<T: TryFrom<u32>>(text: &str) -> Result<T, String> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|&pid| checks::pid(pid).is_ok());
    let number = number.and_then(|pid: u32| T::try_from(pid).ok());
    number.ok_or_else(|| format!("`{text}` is no process number: give the number that `ps` shows"))
}

/// Bytes, more than none.
pub fn bytes(text: &str) -> Result<u64, String> {
    match text.parse::<Size>() {
        Ok(Size::Bytes(0)) => Err("give more than 0 bytes".into()),
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(Size::Part(_)) => Err("give a size: 64M".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_such_number_is_said_in_words() {
        assert_eq!(within(1..=19)("19"), Ok(19));
        let said = "`20` is out of range: give a whole number, 1 to 19";
        assert_eq!(within(1..=19)("20").unwrap_err(), said);
        assert!(
            within(1..=19)("ten")
                .unwrap_err()
                .starts_with("`ten` is out of range")
        );
        assert_eq!(from(1)("7"), Ok(7));
        assert_eq!(
            from(1)("0").unwrap_err(),
            "`0` is no whole number from 1 on"
        );
        assert_eq!(pid::<i32>("4711"), Ok(4711));
        for text in ["0", "-4", "4294967297", "2147483648", "java"] {
            assert!(
                pid::<u32>(text).unwrap_err().contains("no process number"),
                "{text}"
            );
        }
    }
}
