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
    /// Since when another rate is reported.
    other: Option<Nanos>,
}

impl Rhythm {
    pub(super) fn from(now: Nanos) -> Rhythm {
        Rhythm {
            since: now,
            before: LONGEST,
            rate_before: 0,
            other: None,
        }
    }

    /// Takes in whether `another` rate than the `held` one is reported now. Returns whether it counts from
    /// now on.
    pub(super) fn turns(&mut self, another: bool, held: u64, now: Nanos) -> bool {
        self.other = another.then(|| self.other.unwrap_or(now));
        let Some(since) = self
            .other
            .filter(|&other| now.saturating_sub(other) >= SURE)
        else {
            return false;
        };
        *self = Rhythm {
            since,
            before: since.saturating_sub(self.since),
            rate_before: held,
            other: None,
        };
        true
    }

    /// The rate for which memory is demanded while this one holds.
    pub(super) fn demanded(&self, rate: u64, now: Nanos) -> u64 {
        match now.saturating_sub(self.since) < LULL {
            true => rate.max(self.rate_before),
            false => rate,
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
        assert!(!rhythm.turns(true, 7, 10 * SECOND));
        assert!(!rhythm.turns(false, 7, 10 * SECOND + SURE / 2));
        assert!(!rhythm.turns(true, 7, 11 * SECOND), "it was gone meanwhile");
        assert!(!rhythm.turns(true, 7, 11 * SECOND + SURE / 2));
        assert!(rhythm.turns(true, 7, 11 * SECOND + SURE));
    }

    #[test]
    fn a_pause_does_not_lower_the_demand_at_once() {
        let mut rhythm = Rhythm::from(0);
        rhythm.turns(true, 7, 10 * SECOND);
        rhythm.turns(true, 7, 11 * SECOND);
        assert_eq!(rhythm.demanded(0, 14 * SECOND), 7);
        assert_eq!(rhythm.demanded(9, 14 * SECOND), 9);
        assert_eq!(rhythm.demanded(0, 15 * SECOND), 0);
    }

    #[test]
    fn it_is_expected_to_hold_like_the_one_before() {
        let mut rhythm = Rhythm::from(0);
        assert_eq!(rhythm.lasts(SECOND), LONGEST);
        rhythm.turns(true, 7, 3 * SECOND);
        rhythm.turns(true, 7, 4 * SECOND);
        assert_eq!(rhythm.lasts(4 * SECOND), 3 * SECOND);
        assert_eq!(rhythm.lasts(10 * SECOND), 7 * SECOND, "it has held longer");
        assert_eq!(rhythm.lasts(100 * SECOND), LONGEST);
    }
}
