//! How often a program's allocation rate turns: when another rate counts, and for how long it is expected
//! to hold.

use super::Nanos;

/// Another rate counts once it was reported for this long: programs pause for a moment, and work for one.
const SURE: Nanos = 1_000_000_000;
/// No rate is expected to hold for longer.
const LONGEST: Nanos = 20_000_000_000;
/// For this long a program still demands memory for the rate of before.
const LULL: Nanos = 5_000_000_000;

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
        let Some((since, _)) = self
            .other
            .filter(|other| now.saturating_sub(other.0) >= SURE)
        else {
            return false;
        };
        // A rate often turns in steps: these are one turn.
        let goes_on = rises == self.rose && since.saturating_sub(self.since) < LULL;
        *self = if goes_on {
            Rhythm {
                rate_before: self.rate_before.max(held),
                other: None,
                ..*self
            }
        } else {
            Rhythm {
                since,
                before: since.saturating_sub(self.since),
                rate_before: held,
                rose: rises,
                other: None,
            }
        };
        true
    }

    /// The rate for which memory is demanded while this one holds.
    pub(super) fn demanded(&self, rate: u64, now: Nanos) -> u64 {
        if now.saturating_sub(self.since) < LULL {
            rate.max(self.rate_before)
        } else {
            rate
        }
    }

    /// For how long the present rate is expected to hold: as long as the one before did, or as it has held
    /// already. So memory moves at once for programs whose turns are long, and not for those that come and
    /// go sooner than a move pays.
    pub(super) fn lasts(&self, now: Nanos) -> Nanos {
        let held = now.saturating_sub(self.since);
        self.before.max(held).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_rate_counts_when_it_has_stayed() {
        let mut rhythm = Rhythm::from(0);
        assert!(!rhythm.turns(7, 100, true, 10 * SECOND));
        assert!(!rhythm.turns(7, 7, false, 10 * SECOND + SURE / 2));
        assert!(
            !rhythm.turns(7, 100, true, 11 * SECOND),
            "it was gone meanwhile"
        );
        assert!(!rhythm.turns(7, 0, true, 12 * SECOND), "it is another one");
        assert!(!rhythm.turns(7, 0, true, 12 * SECOND + SURE / 2));
        assert!(rhythm.turns(7, 0, true, 12 * SECOND + SURE));
    }

    /// Turns to a rate at this time.
    fn turn(rhythm: &mut Rhythm, held: u64, new: u64, at: Nanos) {
        assert!(!rhythm.turns(held, new, true, at));
        assert!(rhythm.turns(held, new, true, at + SURE));
    }

    #[test]
    fn a_pause_does_not_lower_the_demand_at_once() {
        let mut rhythm = Rhythm::from(0);
        turn(&mut rhythm, 7, 0, 10 * SECOND);
        assert_eq!(rhythm.demanded(0, 14 * SECOND), 7);
        assert_eq!(rhythm.demanded(9, 14 * SECOND), 9);
        assert_eq!(rhythm.demanded(0, 15 * SECOND), 0);
    }

    #[test]
    fn it_is_expected_to_hold_like_the_one_before() {
        let mut rhythm = Rhythm::from(0);
        assert_eq!(rhythm.lasts(SECOND), LONGEST);
        turn(&mut rhythm, 7, 0, 3 * SECOND);
        assert_eq!(rhythm.lasts(4 * SECOND), 3 * SECOND);
        assert_eq!(rhythm.lasts(10 * SECOND), 7 * SECOND, "it has held longer");
        assert_eq!(rhythm.lasts(100 * SECOND), LONGEST);
    }

    #[test]
    fn steps_of_a_turn_after_a_long_time_are_no_turns_either() {
        let mut rhythm = Rhythm::from(0);
        turn(&mut rhythm, 1000, 100, 60 * SECOND);
        turn(&mut rhythm, 100, 10, 62 * SECOND);
        assert_eq!(rhythm.lasts(64 * SECOND), LONGEST);
        assert_eq!(rhythm.demanded(10, 64 * SECOND), 1000);
    }

    #[test]
    fn steps_of_one_turn_are_no_turns() {
        let mut rhythm = Rhythm::from(0);
        turn(&mut rhythm, 0, 1000, 5 * SECOND);
        turn(&mut rhythm, 1000, 100, 15 * SECOND);
        turn(&mut rhythm, 100, 10, 17 * SECOND);
        assert_eq!(rhythm.lasts(18 * SECOND), 10 * SECOND);
        assert_eq!(rhythm.demanded(10, 18 * SECOND), 1000);
    }
}
