//! The square-root rule: a heap gets memory as long as that saves enough collections (Kirisame,
//! Shenoy and Panchekha, OOPSLA 2022).

use super::{Ended, Sizing};

/// Bytes that saved collection time is worth: about 1 MiB for each thousandth of the program's
/// time.
const WORTH: f64 = (1u64 << 30) as f64;

/// The policy for a heap that allocates as fast as it did between its last two collections.
#[derive(Clone, Debug)]
pub struct SquareRoot {
    most: u64,
    /// The last collection: when it ended, ns, and what was allocated by then, bytes.
    last: Option<(u64, u64)>,
    live: u64,
    /// Bytes that it may allocate until the next collection; unlimited until two collections were
    /// seen.
    enough: u64,
}

impl Default for SquareRoot {
    fn default() -> SquareRoot {
        SquareRoot {
            most: u64::MAX,
            last: None,
            live: 0,
            enough: u64::MAX,
        }
    }
}

impl Sizing for SquareRoot {
    fn bounded(&mut self, most: u64) {
        self.most = most;
    }

    fn ended(&mut self, ended: &Ended) {
        self.live = ended.live;
        let last = self.last.replace((ended.now, ended.allocated));
        self.enough = last.map_or(u64::MAX, |(then, before)| {
            let ran = ended.now.saturating_sub(then).saturating_sub(ended.took);
            let allocated = ended.allocated.saturating_sub(before) as f64;
            let rate = allocated / (ran as f64 / 1e9).max(1e-9);
            square_root(ended.cost, rate as u64)
        });
    }

    fn size(&self) -> u64 {
        let size = self.live.saturating_add(self.enough);
        size.min(self.most.max(self.live))
    }
}

/// Bytes to allocate until the next collection: the square root of the cost of a collection (ns)
/// times the allocation rate (bytes per second), scaled by `WORTH`.
fn square_root(cost: u64, rate: u64) -> u64 {
    (cost as f64 / 1e9 * WORTH * rate as f64).sqrt() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::{MIB, SECOND};

    #[test]
    fn heaps_that_hardly_allocate_take_less() {
        let cost = 100_000_000;
        let slow = square_root(cost, 10 * MIB);
        assert!((31 * MIB..33 * MIB).contains(&slow), "{slow}");
        assert!(square_root(cost, 1000 * MIB) > 300 * MIB);
        assert_eq!(square_root(cost, 0), 0);
    }

    /// The program allocates nothing during a collection, so this time does not count for the rate.
    #[test]
    fn the_rate_is_of_the_time_between_two_collections() {
        let mut sizing = SquareRoot::default();
        let ended = |now, allocated| Ended {
            now,
            took: SECOND / 2,
            cost: SECOND / 10,
            live: 100 * MIB,
            allocated,
            ..Ended::default()
        };
        sizing.ended(&ended(7 * SECOND, 50 * MIB));
        assert_eq!(sizing.size(), u64::MAX, "nothing is known of the rate");
        sizing.ended(&ended(8 * SECOND, 55 * MIB));
        let enough = square_root(SECOND / 10, 10 * MIB);
        assert_eq!(sizing.size(), 100 * MIB + enough);
        sizing.bounded(120 * MIB);
        assert_eq!(sizing.size(), 120 * MIB);
    }
}
