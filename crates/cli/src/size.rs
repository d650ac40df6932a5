//! Sizes as people read them (`1.46G`). How they write them is `plimsoll_wire::size`.

use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Max;
pub use plimsoll_wire::size::Human;
use plimsoll_wire::size::Size;

/// Bytes with the unit as it is spelled in pictures: `812 KiB`, `15.2 MiB`.
pub fn with_unit(bytes: u64) -> String {
    let short = Human(bytes).to_string();
    match short.char_indices().next_back() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => format!("{} {unit}iB", &short[..at]),
        _ => short,
    }
}

/// A size of the command line. Nothing of the memory would be taken for no bound, so it is refused.
pub fn no_empty_part(text: &str) -> Result<Size, String> {
    match text.parse() {
        Ok(Size::Part(0.0)) => Err("give more than 0% and at most 100%".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

/// The most memory that a principal may use, as the command line has it: never one that a broker refuses.
///
/// # Errors
/// Says which sizes are taken.
pub fn most(text: &str) -> Result<Size, String> {
    match most_or_none(text)? {
        size if size.is_zero() => Err("0 is no bound: leave it out for none".into()),
        size => Ok(size),
    }
}

/// As [`most`], but 0 removes the bound, for `set`.
///
/// # Errors
/// As [`most`].
pub fn most_or_none(text: &str) -> Result<Size, String> {
    let size = no_empty_part(text)?;
    if let Size::Bytes(bytes) = size {
        Max::or_none(Bytes(bytes)).map_err(|error| error.message)?;
    }
    Ok(size)
}

/// The amount of such a size where there is `memory`. A small part of a small memory is no bound that a
/// broker takes.
///
/// # Errors
/// Says which sizes are taken.
pub fn bound(size: Size, memory: Bytes) -> Result<Bytes, String> {
    let max = Max::new(size.bytes(memory)).map_err(|error| error.message)?;
    Ok(max.cap())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    #[test]
    fn nothing_of_the_memory_is_no_bound() {
        assert!(no_empty_part("0%").unwrap_err().contains("more than 0%"));
        assert!(no_empty_part("many").unwrap_err().contains("write bytes"));
        assert_eq!(no_empty_part("50%"), Ok(Size::Part(0.5)));
    }

    #[test]
    fn a_bound_that_a_broker_refuses_is_refused_here() {
        for text in ["1K", "1", "1048575", "0.0001K", "0", "0%"] {
            assert!(most(text).is_err(), "{text}");
        }
        for text in ["1M", "50%", "4000000T"] {
            assert!(most(text).is_ok(), "{text}");
        }
        assert_eq!(most_or_none("0"), Ok(Size::Bytes(0)));
        assert!(most_or_none("1K").unwrap_err().contains("out of range"));
        assert_eq!(bound(Size::Part(0.5), Bytes::mib(4)), Ok(Bytes::mib(2)));
        assert!(bound(Size::Part(0.001), Bytes::mib(4)).is_err());
    }

    #[test]
    fn units_are_spelled_in_pictures() {
        assert_eq!(with_unit(0), "0");
        assert_eq!(with_unit(1536 << 20), "1.50 GiB");
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
