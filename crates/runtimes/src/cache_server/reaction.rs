//! How long a server took to come down to its limit.

use plimsoll_unit::Bytes;
use std::time::{Duration, Instant};

/// An excess of less than one part in this many of the limit is none.
const SMALL: u64 = 64;

/// Measures from look to look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reaction {
    /// When the process was first seen above its limit.
    since: Option<Instant>,
    /// How long it was there the last time.
    took: Option<Duration>,
}

impl Reaction {
    /// Notes a look.
    pub(super) fn look(&mut self, uses: Bytes, limit: Bytes) {
        if limit > Bytes::ZERO && uses > limit + limit / SMALL {
            self.since.get_or_insert_with(Instant::now);
        } else if uses <= limit {
            self.took = self.since.take().map(|since| since.elapsed()).or(self.took);
        }
    }

    /// The last one.
    pub(super) fn milliseconds(&self) -> Option<u64> {
        let took = self.took?.as_millis();
        u64::try_from(took).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excess_is_measured_when_it_is_over() {
        let mut reaction = Reaction::default();
        for (uses, known) in [
            (100, false),
            (101, false),
            (110, false),
            (101, false),
            (100, true),
        ] {
            reaction.look(Bytes(uses), Bytes(100));
            assert_eq!(reaction.milliseconds().is_some(), known, "{uses}");
        }
    }
}
