//! Sizes as people read them (`1.46G`). How they write them is `plimsoll_wire::size`.

use plimsoll_wire::size::Size;
use std::fmt;

/// A size of the command line. Nothing of the memory would be taken for no bound, so it is refused.
pub fn no_empty_part(text: &str) -> Result<Size, String> {
    match text.parse() {
        Ok(Size::Part(0.0)) => Err("give more than 0% and at most 100%".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
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
