//! The highest use of a process lately.

use super::observation::Seen;
use plimsoll_unit::{Bytes, Nanos};

/// How long the highest use is remembered at least. It is remembered longer until the
/// young generation was filled once in that time.
const WINDOW: Nanos = Nanos::millis(500);
/// The same for collectors without generations, whose cycles are further apart.
const LONG_WINDOW: Nanos = Nanos::millis(1500);

/// The highest use in the last one to two windows.
#[derive(Debug, Default)]
pub(super) struct PeakUse {
    /// Begin and highest use (bytes) of the current window and of the one before.
    windows: [(Nanos, Bytes); 2],
    /// Young collections when the current window began.
    young: u64,
}

impl PeakUse {
    /// Takes in one moment after this number of `young` collections; `None` for a collector without
    /// generations.
    pub(super) fn look(&mut self, seen: &Seen, young: Option<u64>) {
        let age = seen.now - self.windows[0].0;
        let over = match young {
            Some(young) => age > WINDOW && young > self.young,
            None => age > LONG_WINDOW,
        };
        if over {
            self.young = young.unwrap_or(0);
            self.windows[1] = self.windows[0];
            self.windows[0] = (seen.now, Bytes::ZERO);
        }
        self.windows[0].1 = self.windows[0].1.max(seen.uses);
    }

    /// The highest use.
    pub(super) fn most(&self) -> Bytes {
        self.windows[0].1.max(self.windows[1].1)
    }

    /// Whether the use still rises because committed memory is being filled.
    pub(super) fn rises(&self) -> bool {
        let before = self.windows[1].1;
        self.windows[0].1 > before + before / 66
    }
}
