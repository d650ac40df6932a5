//! Trust in a grant. A limit is a promise that the kernel has the memory. An adapter that meets
//! allocation stalls although its program keeps to its limit says that the promise was not kept:
//! somebody holds memory that the broker does not see, or its picture of the machine is too old.
//!
//! - While such stalls arrive, and for [`DOUBT`] after the last, the principal is taken to want no
//!   more than it has: its limit does not rise, and others may get what it would have got.
//! - Nothing is taken from it, and nothing of what it is guaranteed later: the doubt ends by itself.
//! - Stalls of a principal whose cgroup the broker has bound, or whose limit it lowers for a moment to
//!   take bytes, are the broker's own doing. They are shown, but doubt nothing. Reports come late, so
//!   that is what the broker did at any time since the number last changed.
//! - A report can only lower what the reporter itself gets.

use super::Stalls;
use super::smoothed_level::Flow;
use plimsoll_unit::Nanos;

/// How long a grant is doubted after a stall. Adapters report about once a second.
const DOUBT: Nanos = Nanos::seconds(3);
/// Time constant of the rate that is shown.
const TAU: Nanos = Nanos::seconds(2);
/// Stalls before this time show in no rate.
const FORGOTTEN: Nanos = Nanos(5 * TAU.0);

/// Evidence about the stalls of one principal within its limits. Changed once in each tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    /// Stalls so far, as reported; `None` before the first report of them.
    total: Option<u64>,
    /// How fast they come.
    flow: Flow,
    /// When the last one was reported, in core time, and whether it was the broker's own doing.
    stalled: Option<(Nanos, bool)>,
    /// Whether the broker took bytes, or had the cgroup bound, since the number last changed.
    ours: bool,
}

impl Trust {
    /// Takes in the number of stalls as reported last. `passed` since the last tick. `ours`: the
    /// broker takes bytes from the principal, or has bound its cgroup. A number that went back is that
    /// of another program, and begins anew.
    pub(super) fn record(&mut self, reported: Option<u64>, ours: bool, now: Nanos, passed: Nanos) {
        self.ours |= ours;
        let Some(total) = reported else { return };
        let before = self.total.replace(total);
        if before.is_none_or(|before| total < before) {
            (self.flow, self.stalled, self.ours) = (Flow::default(), None, false);
        } else if before < Some(total) {
            self.stalled = Some((now, std::mem::take(&mut self.ours)));
        }
        self.flow.feed(total, passed, TAU);
    }

    /// Whether its limit must not rise now.
    pub(super) fn is_doubted(&self, now: Nanos) -> bool {
        self.stalled
            .is_some_and(|(at, ours)| !ours && now - at < DOUBT)
    }

    /// The stalls, for listings.
    pub(super) fn stalls(&self, now: Nanos) -> Stalls {
        Stalls {
            rate: self.rate(now),
            doubted: self.is_doubted(now),
        }
    }

    /// Stalls per second; `None` where nobody reports any.
    fn rate(&self, now: Nanos) -> Option<u64> {
        self.total?;
        let lately = |at: Nanos| now - at < FORGOTTEN;
        let rate = match self.stalled {
            Some((at, _)) if lately(at) => self.flow.rate(TAU),
            // A smoothed rate never quite reaches 0.
            _ => 0,
        };
        Some(u64::try_from(rate).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::seconds(1);

    #[test]
    fn a_grant_is_doubted_while_stalls_come_and_a_little_longer() {
        let mut trust = Trust::default();
        assert_eq!(
            (trust.rate(Nanos::ZERO), trust.is_doubted(Nanos::ZERO)),
            (None, false)
        );
        trust.record(Some(7), false, SECOND, SECOND);
        assert!(!trust.is_doubted(SECOND), "they may be old");
        for second in 2..12 {
            trust.record(Some(7 + second * 100), false, SECOND * second, SECOND);
            assert!(trust.is_doubted(SECOND * second));
        }
        let rate = trust.rate(Nanos::seconds(11)).unwrap_or(0);
        assert!((90..=110).contains(&rate), "{rate}");
        for second in 12..60 {
            trust.record(Some(7 + 1100), false, SECOND * second, SECOND);
        }
        assert!(!trust.is_doubted(Nanos::seconds(59)));
        assert_eq!(trust.rate(Nanos::seconds(59)), Some(0));
    }

    #[test]
    fn a_number_that_goes_back_and_a_bound_of_ours_doubt_nothing() {
        let mut trust = Trust::default();
        trust.record(Some(1000), false, SECOND, SECOND);
        trust.record(Some(3), false, Nanos::seconds(2), SECOND);
        assert_eq!(
            (
                trust.rate(Nanos::seconds(2)),
                trust.is_doubted(Nanos::seconds(2))
            ),
            (Some(0), false)
        );
        trust.record(Some(50), true, Nanos::seconds(3), SECOND);
        assert!(!trust.is_doubted(Nanos::seconds(3)));
        assert!(trust.rate(Nanos::seconds(3)) > Some(0), "it is shown");
        trust.record(Some(u64::MAX), false, Nanos::seconds(4), SECOND);
        assert!(trust.is_doubted(Nanos::seconds(4)));
    }

    #[test]
    fn stalls_that_are_reported_after_what_we_did_doubt_nothing() {
        let mut trust = Trust::default();
        for (second, total, ours) in [(1, 0, false), (2, 0, true), (3, 0, false), (4, 9, false)] {
            trust.record(Some(total), ours, SECOND * second, SECOND);
        }
        assert!(
            !trust.is_doubted(Nanos::seconds(4)),
            "they may have been ours"
        );
        trust.record(Some(20), false, Nanos::seconds(5), SECOND);
        assert!(trust.is_doubted(Nanos::seconds(5)), "these were not");
    }
}
