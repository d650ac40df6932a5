//! How often what is dear is done, so that all of it takes a bounded part of the time.
//!
//! The kernel adds up the faults and the delays of all threads whenever it is asked for those of a process.
//! With a few threads that is nothing, with thousands it would prolong each pause by half a millisecond.

/// Part of the time that something may take: one of this many.
const PARTS: u64 = 500;
/// Assumed cost of the first time, ns.
const FIRST_NS: u64 = 20_000;

/// When something may be done again, judged by what it cost. Used by one thread at a time.
#[derive(Debug)]
pub struct TimeBudget {
    /// Its cost, ns: that of the last time, but at most twice the cost before. A thread that others keep from
    /// its processor takes long once, which tells nothing of the next time. Changed each time it is done.
    cost_ns: u64,
    /// When it may be done again, ns. Changed each time it is done.
    next_ns: u64,
}

impl Default for TimeBudget {
    fn default() -> TimeBudget {
        TimeBudget {
            cost_ns: FIRST_NS,
            next_ns: 0,
        }
    }
}

impl TimeBudget {
    /// Whether it may be done now.
    pub fn allows(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// It was done, took this long, and ended now (ns).
    pub fn spent(&mut self, took_ns: u64, now_ns: u64) {
        self.cost_ns = took_ns.clamp(1, self.cost_ns.saturating_mul(2));
        self.next_ns = now_ns.saturating_add(self.rest_ns());
    }

    /// One that forbids it until then.
    #[cfg(test)]
    pub fn until(next_ns: u64) -> TimeBudget {
        TimeBudget {
            next_ns,
            ..TimeBudget::default()
        }
    }

    /// How long it has to rest after the last time, ns.
    pub fn rest_ns(&self) -> u64 {
        self.cost_ns.saturating_mul(PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MILLISECOND;

    #[test]
    fn what_is_cheap_is_done_each_time() {
        let mut ration = TimeBudget::default();
        assert!(ration.allows(0));
        ration.spent(15_000, 100 * MILLISECOND);
        assert!(!ration.allows(107 * MILLISECOND));
        assert!(
            ration.allows(108 * MILLISECOND),
            "a hundred times a second, and more"
        );
    }

    #[test]
    fn after_one_time_that_was_interrupted_it_rests_twice_as_long_at_most() {
        let mut ration = TimeBudget::default();
        ration.spent(15_000, 0);
        ration.spent(900 * MILLISECOND, 1000 * MILLISECOND);
        assert!(ration.allows(1016 * MILLISECOND));
        ration.spent(15_000, 1016 * MILLISECOND);
        assert!(ration.allows(1024 * MILLISECOND));
    }

    proptest! {
        #[test]
        fn it_takes_its_part_of_the_time(cost in 1_u64..50 * MILLISECOND, every in 1_u64..20 * MILLISECOND) {
            let mut ration = TimeBudget::default();
            let (mut now, mut taken) = (0, 0);
            // It learns a cost of 50 ms within a dozen times.
            for _ in 0..12 {
                now = now.max(ration.next_ns);
                ration.spent(cost, now);
            }
            let begun = now;
            let end = now + 100 * ration.rest_ns();
            while now < end {
                if ration.allows(now) {
                    ration.spent(cost, now);
                    taken += cost;
                }
                now = now.max(ration.next_ns.saturating_sub(every)) + every;
            }
            prop_assert!(taken <= (now - begun) / PARTS + cost);
        }
    }
}
