//! How often a program's allocation rate turns: when another rate counts, and for how long it is expected
//! to hold.

use plimsoll_unit::Nanos;

/// Another rate counts once it was reported for this long: programs pause for a moment, and work for one.
const SURE: Nanos = Nanos::seconds(1);
/// No rate is expected to hold for longer.
const LONGEST: Nanos = Nanos::seconds(20);
/// For this long a program still demands memory for the rate of before.
const LULL: Nanos = Nanos::seconds(5);

/// The turns of one program's rate. Times are those of the core.
#[derive(Debug)]
pub(super) struct Rhythm {
    /// Since when the present rate holds.
    since: Nanos,
    /// How long the one before held.
    before: Nanos,
    /// The rate of before, bytes per second.
    rate_before: u64,
    /// Whether the rate rose at the last turn.
    rose: bool,
    /// Since when a much higher rate is reported (`true`), or a much lower one.
    other: Option<(Nanos, bool)>,
}

impl Rhythm {
    pub(super) fn from(now: Nanos) -> Rhythm {
        Rhythm {
            since: now,
            before: LONGEST,
            rate_before: 0,
            rose: true,
            other: None,
        }
    }

    /// Takes in that the rate `new` is reported now; `differs` says that it is much higher or lower than
    /// `held`. Returns whether it has been so for long enough to count.
    pub(super) fn turns(&mut self, held: u64, new: u64, differs: bool, now: Nanos) -> bool {
        let rises = new > held;
        let known = self.other.filter(|other| other.1 == rises);
        self.other = differs.then(|| known.unwrap_or((now, rises)));
        let Some((since, _)) = self.other.filter(|other| now - other.0 >= SURE) else {
            return false;
        };
        // A rate often turns in steps: these are one turn.
        let goes_on = rises == self.rose && since - self.since < LULL;
        *self = if goes_on {
            Rhythm {
                rate_before: self.rate_before.max(held),
                other: None,
                ..*self
            }
        } else {
            Rhythm {
                since,
                before: since - self.since,
                rate_before: held,
                rose: rises,
                other: None,
            }
        };
        true
    }

    /// The rate for which memory is demanded while this one holds.
    pub(super) fn demanded(&self, rate: u64, now: Nanos) -> u64 {
        if now - self.since < LULL {
            rate.max(self.rate_before)
        } else {
            rate
        }
    }

    /// For how long the present rate is expected to hold: as long as the one before did, or as it has held
    /// already. So memory moves at once for programs whose turns are long, and not for those that come and
    /// go sooner than a move pays.
    pub(super) fn lasts(&self, now: Nanos) -> Nanos {
        let held = now - self.since;
        self.before.max(held).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::seconds(1);

    #[test]
    fn a_rate_counts_when_it_has_stayed() {
        let mut rhythm = Rhythm::from(Nanos::ZERO);
        assert!(!rhythm.turns(7, 100, true, Nanos::seconds(10)));
        assert!(!rhythm.turns(7, 7, false, Nanos::seconds(10) + SURE / 2));
        assert!(
            !rhythm.turns(7, 100, true, Nanos::seconds(11)),
            "it was gone meanwhile"
        );
        assert!(
            !rhythm.turns(7, 0, true, Nanos::seconds(12)),
            "it is another one"
        );
        assert!(!rhythm.turns(7, 0, true, Nanos::seconds(12) + SURE / 2));
        assert!(rhythm.turns(7, 0, true, Nanos::seconds(12) + SURE));
    }

    /// Turns to a rate at this time.
    fn turn(rhythm: &mut Rhythm, held: u64, new: u64, at: Nanos) {
        assert!(!rhythm.turns(held, new, true, at));
        assert!(rhythm.turns(held, new, true, at + SURE));
    }

    #[test]
    fn a_pause_does_not_lower_the_demand_at_once() {
        let mut rhythm = Rhythm::from(Nanos::ZERO);
        turn(&mut rhythm, 7, 0, Nanos::seconds(10));
        assert_eq!(rhythm.demanded(0, Nanos::seconds(14)), 7);
        assert_eq!(rhythm.demanded(9, Nanos::seconds(14)), 9);
        assert_eq!(rhythm.demanded(0, Nanos::seconds(15)), 0);
    }

    #[test]
    fn it_is_expected_to_hold_like_the_one_before() {
        let mut rhythm = Rhythm::from(Nanos::ZERO);
        assert_eq!(rhythm.lasts(SECOND), LONGEST);
        turn(&mut rhythm, 7, 0, Nanos::seconds(3));
        assert_eq!(rhythm.lasts(Nanos::seconds(4)), Nanos::seconds(3));
        assert_eq!(
            rhythm.lasts(Nanos::seconds(10)),
            Nanos::seconds(7),
            "it has held longer"
        );
        assert_eq!(rhythm.lasts(Nanos::seconds(100)), LONGEST);
    }

    #[test]
    fn steps_of_a_turn_after_a_long_time_are_no_turns_either() {
        let mut rhythm = Rhythm::from(Nanos::ZERO);
        turn(&mut rhythm, 1000, 100, Nanos::seconds(60));
        turn(&mut rhythm, 100, 10, Nanos::seconds(62));
        assert_eq!(rhythm.lasts(Nanos::seconds(64)), LONGEST);
        assert_eq!(rhythm.demanded(10, Nanos::seconds(64)), 1000);
    }

    #[test]
    fn steps_of_one_turn_are_no_turns() {
        let mut rhythm = Rhythm::from(Nanos::ZERO);
        turn(&mut rhythm, 0, 1000, Nanos::seconds(5));
        turn(&mut rhythm, 1000, 100, Nanos::seconds(15));
        turn(&mut rhythm, 100, 10, Nanos::seconds(17));
        assert_eq!(rhythm.lasts(Nanos::seconds(18)), Nanos::seconds(10));
        assert_eq!(rhythm.demanded(10, Nanos::seconds(18)), 1000);
    }
}
