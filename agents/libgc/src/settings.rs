//! The environment: `PLIMSOLL_LIBGC` (for tests and measurements) and what `plimsoll run` sets. A
//! program with more rights than the user who starts it (set-user-ID, file capabilities) ignores
//! all of it, and the adapter does nothing there.

use plimsoll_kernel::environment::is_trusted;
use plimsoll_unit::Bytes;

/// The adapter's task in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Follow the broker.
    Adaptive,
    /// Do nothing (`off`).
    Off,
    /// Report to the broker, but leave libgc's own schedule in force (`default`).
    Default,
    /// Act as if the limit were always this (`fixed:BYTES`).
    Fixed(Bytes),
}

/// Parses a value of `PLIMSOLL_LIBGC`. A value that is not understood leaves the program alone.
pub fn mode(value: Option<&str>) -> Mode {
    match value {
        None | Some("") => Mode::Adaptive,
        Some("default") => Mode::Default,
        Some(text) => match text
            .strip_prefix("fixed:")
            .and_then(|bytes| bytes.parse().ok())
        {
            Some(bytes) => Mode::Fixed(Bytes(bytes)),
            None => Mode::Off,
        },
    }
}

/// The mode of this process.
pub fn from_environment() -> Mode {
    if !is_trusted() {
        return Mode::Off;
    }
    match std::env::var_os("PLIMSOLL_LIBGC") {
        None => mode(None),
        Some(value) => mode(Some(value.to_str().unwrap_or("off"))),
    }
}

/// A size from the environment in libgc's format: bytes, or a number with `k`, `M` or `G`. `None`
/// if it makes no sense.
pub fn size(name: &str) -> Option<usize> {
    size_of(std::env::var(name).ok()?.trim())
}

fn size_of(text: &str) -> Option<usize> {
    let shift = match text.chars().last()?.to_ascii_lowercase() {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        _ => 0,
    };
    let digits = if shift > 0 {
        &text[..text.len() - 1]
    } else {
        text
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size_of("300M"), Some(300 << 20));
        assert_eq!(size_of("4g"), Some(4 << 30));
        assert_eq!(size_of("12345"), Some(12345));
        for nothing in ["", "M", "-1", "1.5G", "99999999999999999999", "é"] {
            assert_eq!(size_of(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn modes() {
        assert_eq!(mode(None), Mode::Adaptive);
        assert_eq!(mode(Some("off")), Mode::Off);
        assert_eq!(mode(Some("default")), Mode::Default);
        assert_eq!(mode(Some("fixed:1048576")), Mode::Fixed(Bytes(1 << 20)));
        assert_eq!(mode(Some("fixed:-1")), Mode::Off);
        assert_eq!(mode(Some("fixed:99999999999999999999999")), Mode::Off);
        assert_eq!(mode(Some("nonsense")), Mode::Off);
    }
}
