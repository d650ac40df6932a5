//! How often what is dear is done, so that all of it takes a bounded part of the time.
//!
//! The kernel adds up the faults and the delays of all threads whenever it is asked for those of a process.
//! With a few threads that is nothing, with thousands it would prolong each pause by half a millisecond.

use plimsoll_unit::Nanos;

/// Part of the time that something may take: one of this many.
const PARTS: u64 = 500;
/// Assumed cost of the first time.
const FIRST: Nanos = Nanos(20_000);

/// When something may be done again, judged by what it cost. Used by one thread at a time.
#[derive(Debug)]
pub struct TimeBudget {
    /// Its cost: that of the last time, but at most twice the cost before. A thread that others keep from
    /// its processor takes long once, which tells nothing of the next time. Changed each time it is done.
    cost: Nanos,
    /// When it may be done again. Changed each time it is done.
    next: Nanos,
}

impl Default for TimeBudget {
    fn default() -> TimeBudget {
        TimeBudget {
            cost: FIRST,
            next: Nanos::ZERO,
        }
    }
}

impl TimeBudget {
    /// Whether it may be done now.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// It was done, took this long, and ended now.
    pub fn spent(&mut self, took: Nanos, now: Nanos) {
        self.cost = took.clamp(Nanos(1), self.cost * 2);
        self.next = now + self.rest();
    }

    /// One that forbids it until then.
    #[cfg(test)]
    pub fn until(next: Nanos) -> TimeBudget {
        TimeBudget {
            next,
            ..TimeBudget::default()
        }
    }

    /// How long it has to rest after the last time.
    pub fn rest(&self) -> Nanos {
        self.cost * PARTS
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
        assert!(ration.allows(Nanos::ZERO));
        ration.spent(Nanos(15_000), Nanos::millis(100));
        assert!(!ration.allows(Nanos::millis(107)));
        assert!(
            ration.allows(Nanos::millis(108)),
            "a hundred times a second, and more"
        );
    }

    #[test]
    fn after_one_time_that_was_interrupted_it_rests_twice_as_long_at_most() {
        let mut ration = TimeBudget::default();
        ration.spent(Nanos(15_000), Nanos::ZERO);
        ration.spent(Nanos::millis(900), Nanos::millis(1000));
        assert!(ration.allows(Nanos::millis(1016)));
        ration.spent(Nanos(15_000), Nanos::millis(1016));
        assert!(ration.allows(Nanos::millis(1024)));
    }

    proptest! {
        #[test]
        fn it_takes_its_part_of_the_time(cost in 1_u64..50 * MILLISECOND, every in 1_u64..20 * MILLISECOND) {
            let mut ration = TimeBudget::default();
            let (cost, every) = (Nanos(cost), Nanos(every));
            let (mut now, mut taken) = (Nanos::ZERO, Nanos::ZERO);
            // It learns a cost of 50 ms within a dozen times.
            for _ in 0..12 {
                now = now.max(ration.next);
                ration.spent(cost, now);
            }
            let begun = now;
            let end = now + ration.rest() * 100;
            while now < end {
                if ration.allows(now) {
                    ration.spent(cost, now);
                    taken += cost;
                }
                now = now.max(ration.next - every) + every;
            }
            prop_assert!(taken <= (now - begun) / PARTS + cost);
        }
    }
}
