//! Sizes as people read them (`1.46G`). How they write them is `plimsoll_wire::size`.

pub use plimsoll_wire::size::Human;
use plimsoll_wire::size::Size;

/// A size of the command line. Nothing of the memory would be taken for no bound, so it is refused.
pub fn no_empty_part(text: &str) -> Result<Size, String> {
    match text.parse() {
        Ok(Size::Part(0.0)) => Err("give more than 0% and at most 100%".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn nothing_of_the_memory_is_no_bound() {
        assert!(no_empty_part("0%").unwrap_err().contains("more than 0%"));
        assert!(no_empty_part("many").unwrap_err().contains("write bytes"));
        assert_eq!(no_empty_part("50%"), Ok(Size::Part(0.5)));
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
