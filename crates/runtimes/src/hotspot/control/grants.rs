//! Collections that the agent asks for by itself, at its bound, between two looks. How many these may be is
//! granted one by one.

use super::collection_budget::Allowance;
use super::observation::{AtBound, Seen};
use plimsoll_unit::Nanos;

/// The least time from a collection of the agent's own to the next collection.
const APART: Nanos = Nanos::millis(150);

/// The agent's own collections.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// How many it may have asked for, all in all.
    granted: u64,
    /// How many it had asked for at the last look.
    asked: u64,
    /// The time of all collections of the whole heap at the last look.
    whole: Nanos,
    /// When its last one was seen; `None` before the first.
    last: Option<Nanos>,
}

impl Grants {
    /// Takes in one moment: spends and judges the collections since the last one. Nothing is granted beyond
    /// them, until [`Grants::grant`].
    pub(super) fn look(&mut self, seen: &Seen, allowance: &mut Allowance) {
        let whole = seen.heap.work[1].time;
        let took = whole - std::mem::replace(&mut self.whole, whole);
        let Some(AtBound { asked, left }) = seen.at_bound else {
            return;
        };
        let more = asked.saturating_sub(std::mem::replace(&mut self.asked, asked));
        self.granted = asked;
        if more > 0 {
            allowance.spend(took);
            allowance.judged(left + seen.native <= seen.limit, seen.now);
            self.last = Some(seen.now);
        }
    }

    /// Grants one more.
    pub(super) fn grant(&mut self) {
        self.granted = self.asked.saturating_add(1);
    }

    /// How many it may have asked for, all in all.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Whether its last one was long enough ago for another collection, whoever asks for it.
    pub(super) fn has_rested(&self, now: Nanos) -> bool {
        self.last.is_none_or(|last| now - last >= APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Bytes;

    /// A moment in which it has asked for `asked`, and the last one left this much.
    fn seen(ms: u64, asked: u64, left: u64) -> Seen {
        let left = Bytes::mib(left);
        let mut seen = Seen {
            now: Nanos::millis(ms),
            limit: Bytes::mib(100),
            native: Bytes::mib(30),
            at_bound: Some(AtBound { asked, left }),
            ..Seen::default()
        };
        seen.heap.work[1].time = Nanos::millis(20 * asked);
        seen
    }

    #[test]
    fn one_at_a_time_is_granted_and_spent() {
        let (mut grants, mut allowance) = (Grants::default(), Allowance::new(0.05));
        // An adapter before this one had 7.
        grants.look(&seen(1000, 7, 20), &mut allowance);
        assert_eq!(grants.granted(), 7);
        grants.grant();
        assert_eq!(grants.granted(), 8);
        grants.look(&seen(1200, 7, 20), &mut allowance);
        assert_eq!(grants.granted(), 7, "a grant holds to the next look");
        grants.grant();
        grants.look(&seen(1400, 8, 20), &mut allowance);
        assert!(!grants.has_rested(Nanos::millis(1500)));
        assert!(grants.has_rested(Nanos::millis(1550)));
        assert!(allowance.must(Nanos::millis(1400)), "it helped");
        assert!(allowance.cost() > 0.0, "it was spent");
    }

    #[test]
    fn one_that_left_too_much_is_not_repeated_at_once() {
        let (mut grants, mut allowance) = (Grants::default(), Allowance::new(0.05));
        grants.look(&seen(1000, 0, 0), &mut allowance);
        grants.look(&seen(1200, 1, 90), &mut allowance);
        assert!(!allowance.must(Nanos::millis(1300)));
    }

    #[test]
    fn a_page_that_cannot_be_read_for_a_moment_changes_nothing() {
        let (mut grants, mut allowance) = (Grants::default(), Allowance::new(0.05));
        grants.look(&seen(1000, 5, 20), &mut allowance);
        let unread = Seen {
            at_bound: None,
            ..seen(1100, 5, 20)
        };
        grants.look(&unread, &mut allowance);
        grants.look(&seen(9200, 5, 20), &mut allowance);
        assert!(grants.has_rested(Nanos::millis(9200)), "nothing is new");
    }
}
