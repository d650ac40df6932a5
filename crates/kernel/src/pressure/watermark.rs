//! How much must stay free to leave time to react, and how often to look. Both follow from the
//! growth of usage. Pure.

use plimsoll_unit::{float::MIB, float::SECOND};

/// How fast the system can answer, and the bounds of the watermark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reaction {
    /// Time from the alarm until memory is freed, seconds: wake-up, asking, a collection, the first pages.
    pub time_s: f64,
    /// Time constant over which the growth rate is averaged, seconds. A faster rate counts at once,
    /// a slower one fades in.
    pub smoothing_s: f64,
    /// Smallest watermark, bytes, in a domain large enough for it.
    pub floor: u64,
    /// In small domains the floor is this share of the capacity, 0 to 1.
    pub floor_share: f64,
    /// Largest watermark as a share of the capacity.
    pub cap_share: f64,
    /// Longest time between two looks, seconds.
    pub slowest_s: f64,
    /// Shortest time between two looks, seconds.
    pub fastest_s: f64,
}

impl Default for Reaction {
    /// 0.25 s to answer; floor 32 MiB or 2 % of the capacity; cap 10 %; looks every 1 s to 5 ms.
    fn default() -> Reaction {
        Reaction {
            time_s: 0.25,
            smoothing_s: 4.0,
            floor: 32 << 20,
            floor_share: 0.02,
            cap_share: 0.10,
            slowest_s: 1.0,
            fastest_s: 0.005,
        }
    }
}

/// Follows the usage of a domain.
#[derive(Clone, Debug)]
pub struct Watermark {
    reaction: Reaction,
    last: Option<(u64, u64)>,
    rate: f64,
}

impl Watermark {
    /// Nothing seen yet.
    pub fn new(reaction: Reaction) -> Watermark {
        Watermark {
            reaction,
            last: None,
            rate: 0.0,
        }
    }

    /// Takes in the usage (bytes) at a time (ns, monotonic). Calls within a millisecond of the last
    /// are passed over.
    pub fn observe(&mut self, now_ns: u64, used: u64) {
        let Some((then_ns, before)) = self.last else {
            self.last = Some((now_ns, used));
            return;
        };
        let elapsed = now_ns.saturating_sub(then_ns) as f64 / SECOND;
        if elapsed < 0.001 {
            return;
        }
        let growth = used.saturating_sub(before) as f64 / elapsed;
        // An exponential average weighted by the time that passed. A rise is taken in within a
        // tenth of the constant, so that lasting bursts count at once; a fall takes the whole
        // constant.
        let constant = if growth > self.rate {
            self.reaction.smoothing_s / 10.0
        } else {
            self.reaction.smoothing_s
        };
        let keep = (-elapsed / constant.max(1e-3)).exp();
        self.rate = growth + (self.rate - growth) * keep;
        self.last = Some((now_ns, used));
    }

    /// The growth rate, bytes per second, never negative.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes to keep free in a domain of that capacity: rate x reaction time within floor and cap.
    pub fn bytes(&self, capacity: u64) -> u64 {
        let capacity = capacity as f64;
        let cap = capacity * self.reaction.cap_share;
        let floor = (self.reaction.floor as f64)
            .min(capacity * self.reaction.floor_share)
            .min(cap);
        (self.rate * self.reaction.time_s).max(floor).min(cap) as u64
    }

    /// Whether a reading is inside the watermark.
    pub fn is_crossed(&self, capacity: u64, used: u64) -> bool {
        capacity.saturating_sub(used) < self.bytes(capacity)
    }

    /// The pause until the next look, ns: a quarter of the time in which the room above the
    /// watermark could be used up, at the measured rate or 4 MiB/s, whichever is faster. Stays
    /// between the slowest and the fastest pace.
    pub fn next_look_ns(&self, capacity: u64, used: u64) -> u64 {
        let room = capacity
            .saturating_sub(used)
            .saturating_sub(self.bytes(capacity)) as f64;
        let seconds = room / self.rate.max(4.0 * MIB) / 4.0;
        (seconds.clamp(self.reaction.fastest_s, self.reaction.slowest_s) * SECOND) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::GIB;

    fn grown(rate: u64, seconds: u64) -> Watermark {
        let mut w = Watermark::new(Reaction::default());
        for tenth in 0..=seconds * 10 {
            w.observe(tenth * 100_000_000, tenth * rate / 10);
        }
        w
    }

    #[test]
    fn quiet_domains_keep_the_floor() {
        let w = Watermark::new(Reaction::default());
        assert_eq!(w.bytes(16 * GIB), 32 << 20);
        assert_eq!(w.bytes(500 << 20), 10 << 20);
        assert_eq!(w.bytes(0), 0);
    }

    #[test]
    fn fast_growth_widens_it_up_to_the_cap() {
        let w = grown(400 << 20, 5);
        let bytes = w.bytes(16 * GIB);
        assert!((95 << 20..105 << 20).contains(&bytes), "{bytes}");
        assert_eq!(w.bytes(GIB / 2), (GIB / 2) / 10);
    }

    #[test]
    fn it_comes_down_slowly() {
        let mut w = grown(400 << 20, 5);
        let high = w.rate();
        let used = 5 * (400 << 20);
        w.observe(5_100_000_000, used);
        assert!(w.rate() > high * 0.9);
        for second in 6..60 {
            w.observe(second * 1_000_000_000, used);
        }
        assert!(w.rate() < high * 0.01);
    }

    #[test]
    fn looks_get_denser_near_the_edge() {
        let w = grown(100 << 20, 5);
        let far = w.next_look_ns(16 * GIB, 0);
        let near = w.next_look_ns(16 * GIB, 16 * GIB - (100 << 20));
        let edge = w.next_look_ns(16 * GIB, 16 * GIB);
        assert_eq!(far, 1_000_000_000);
        assert!(near < far / 2, "{near}");
        assert_eq!(edge, 5_000_000);
    }

    proptest! {
        #[test]
        fn always_within_bounds(
            samples in proptest::collection::vec((0u64..10_000_000_000, any::<u64>()), 0..50),
            capacity in any::<u64>(),
            used in any::<u64>(),
        ) {
            let mut w = Watermark::new(Reaction::default());
            let mut now = 0u64;
            for (step, value) in samples {
                now = now.saturating_add(step);
                w.observe(now, value);
                prop_assert!(w.rate() >= 0.0 && w.rate().is_finite());
            }
            prop_assert!(w.bytes(capacity) as f64 <= capacity as f64 * 0.1 + 1.0);
            let look = w.next_look_ns(capacity, used);
            prop_assert!((5_000_000..=1_000_000_000).contains(&look));
        }
    }
}
