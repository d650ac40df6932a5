//! A number of bytes and how sure it is, the same in text and pictures.

use crate::size::Human;
use plimsoll_map::States;

/// The text for a number that is not known.
pub(super) const UNKNOWN: &str = "-";

/// Bytes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Unknown,
    Exact(u64),
    /// Divided by share.
    About(u64),
    /// It is not known for a part of the memory.
    AtLeast(u64),
}

impl Number {
    /// A number that the kernel gives, or a share of it.
    pub(super) fn of(bytes: Option<u64>, estimated: bool) -> Number {
        match bytes {
            None => Number::Unknown,
            Some(bytes) if estimated && bytes > 0 => Number::About(bytes),
            Some(bytes) => Number::Exact(bytes),
        }
    }

    /// A sum of what is known; `unknown`: there is more.
    pub(super) fn sum(bytes: Option<u64>, unknown: bool) -> Number {
        match bytes {
            Some(bytes) if unknown => Number::AtLeast(bytes),
            bytes => Number::of(bytes, false),
        }
    }

    pub(super) fn cached(states: &States) -> Number {
        Number::sum(states.cached, states.cached_unknown)
    }

    pub(super) fn refaulted(states: &States) -> Number {
        Number::sum(states.refaulted, states.refaulted_unknown)
    }

    /// As text; `shown` writes the bytes.
    pub(super) fn text(self, shown: impl FnOnce(u64) -> String) -> String {
        match self {
            Number::Unknown => UNKNOWN.to_owned(),
            Number::Exact(bytes) => shown(bytes),
            Number::About(bytes) => format!("~{}", shown(bytes)),
            Number::AtLeast(bytes) => format!("≥{}", shown(bytes)),
        }
    }

    /// As text in a table.
    pub(super) fn human(self) -> String {
        self.text(|bytes| Human(bytes).to_string())
    }
}
