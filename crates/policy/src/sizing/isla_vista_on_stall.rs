//! Follows the collector's own rule until the kernel stalls the program, then Isla Vista until the
//! spike is over.

use super::{Ended, IslaVista, Ratios, Sizing};
use plimsoll_unit::Bytes;

/// A heap that follows its collector's own rule as long as no memory of others is in danger.
#[derive(Clone, Debug, Default)]
pub struct AfterStalls {
    most: Bytes,
    size: Bytes,
    /// Live bytes at the last collection.
    live: Bytes,
    /// Present from the first stall until the spike is over.
    stalled: Option<IslaVista>,
}

impl Sizing for AfterStalls {
    fn bounded(&mut self, most: Bytes) {
        self.most = most;
        if let Some(stalled) = &mut self.stalled {
            stalled.bounded(most);
        }
    }

    fn ended(&mut self, ended: &Ended) {
        let usual = ended.live + ended.growth;
        (self.live, self.size) = (ended.live, usual);
        if ended.stalls > 0 && self.stalled.is_none() {
            self.stalled = Some(IslaVista::new(Ratios::DROP_IN, usual, self.most));
        }
        let Some(stalled) = &mut self.stalled else {
            return;
        };
        stalled.ended(ended);
        self.size = stalled.size().min(usual);
        if ended.stalls == 0 && self.size == usual {
            // The spike is over.
            self.stalled = None;
        }
    }

    fn size(&self) -> Bytes {
        self.size.min(self.most.max(self.live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;

    #[test]
    fn stalls_shrink_it_and_a_spike_is_forgotten() {
        let mut sizing = AfterStalls::default();
        let mut after = |stalls| {
            sizing.bounded(Bytes::mib(512));
            sizing.ended(&Ended {
                live: Bytes::mib(160),
                growth: Bytes::mib(100),
                stalls,
                ..Ended::default()
            });
            (sizing.size().0 / MIB, sizing.stalled.is_some())
        };
        assert_eq!(after(0), (260, false));
        let (size, stalled) = after(1);
        assert!(size <= 235 && stalled, "{size}");
        let calm = (0..200).find(|_| !after(0).1);
        assert!(calm.is_some());
        assert_eq!(after(0), (260, false));
    }
}
