//! The square-root rule: a heap gets memory as long as that saves enough collections (Kirisame,
//! Shenoy and Panchekha, OOPSLA 2022).

use super::{Ended, Sizing};
use plimsoll_unit::{Bytes, Nanos};

/// Bytes that saved collection time is worth: about 1 MiB for each thousandth of the program's
/// time.
const WORTH: f64 = (1u64 << 30) as f64;

/// The policy for a heap that allocates as fast as it did between its last two collections.
#[derive(Clone, Debug)]
pub struct SquareRoot {
    most: Bytes,
    /// The last collection: when it ended, and what was allocated by then.
    last: Option<(Nanos, Bytes)>,
    live: Bytes,
    /// Memory that it may allocate until the next collection; unlimited until two collections were
    /// seen.
    enough: Bytes,
}

impl Default for SquareRoot {
    fn default() -> SquareRoot {
        SquareRoot {
            most: Bytes::MAX,
            last: None,
            live: Bytes::ZERO,
            enough: Bytes::MAX,
        }
    }
}

impl Sizing for SquareRoot {
    fn bounded(&mut self, most: Bytes) {
        self.most = most;
    }

    fn ended(&mut self, ended: &Ended) {
        self.live = ended.live;
        let last = self.last.replace((ended.now, ended.allocated));
        self.enough = last.map_or(Bytes::MAX, |(then, before)| {
            let ran = ended.now - then - ended.took;
            let allocated = (ended.allocated - before).0 as f64;
            let rate = allocated / (ran.0 as f64 / 1e9).max(1e-9);
            square_root(ended.cost, rate as u64)
        });
    }

    fn size(&self) -> Bytes {
        let size = self.live + self.enough;
        size.min(self.most.max(self.live))
    }
}

/// Memory to allocate until the next collection: the square root of the cost of a collection (ns)
/// times the allocation rate (bytes per second), scaled by `WORTH`.
fn square_root(cost: Nanos, rate: u64) -> Bytes {
    Bytes((cost.0 as f64 / 1e9 * WORTH * rate as f64).sqrt() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;

    #[test]
    fn heaps_that_hardly_allocate_take_less() {
        let cost = Nanos::millis(100);
        let slow = square_root(cost, 10 * MIB);
        assert!((Bytes::mib(31)..Bytes::mib(33)).contains(&slow), "{slow}");
        assert!(square_root(cost, 1000 * MIB) > Bytes::mib(300));
        assert_eq!(square_root(cost, 0), Bytes::ZERO);
    }

    /// The program allocates nothing during a collection, so this time does not count for the rate.
    #[test]
    fn the_rate_is_of_the_time_between_two_collections() {
        let mut sizing = SquareRoot::default();
        let ended = |now, allocated| Ended {
            now,
            took: Nanos::millis(500),
            cost: Nanos::millis(100),
            live: Bytes::mib(100),
            allocated,
            ..Ended::default()
        };
        sizing.ended(&ended(Nanos::seconds(7), Bytes::mib(50)));
        assert_eq!(sizing.size(), Bytes::MAX, "nothing is known of the rate");
        sizing.ended(&ended(Nanos::seconds(8), Bytes::mib(55)));
        let enough = square_root(Nanos::millis(100), 10 * MIB);
        assert_eq!(sizing.size(), Bytes::mib(100) + enough);
        sizing.bounded(Bytes::mib(120));
        assert_eq!(sizing.size(), Bytes::mib(120));
    }
}
