//! When pages are released because memory is short. Not at once: locking pages makes the kernel
//! reclaim others, and the ladder needs some seconds to restore the reserve. Not too late either:
//! the programs' own memory comes before their files.

use plimsoll_unit::{Bytes, Nanos};

/// Memory must be short for this long.
const PATIENCE: Nanos = Nanos::seconds(5);
/// Nothing is held again for this long; doubles each time, up to the longest.
const REST: Nanos = Nanos::seconds(60);
const LONGEST_REST: Nanos = Nanos::seconds(960);
/// Without a release for this long, the next rest is a short one again.
const FORGOTTEN: Nanos = Nanos::seconds(1_800);

/// Whether pages may be held. All times are of a monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseBackoff {
    short_since: Option<Nanos>,
    /// Nothing is held before this time.
    until: Nanos,
    rest: Nanos,
}

impl ReleaseBackoff {
    /// Takes in whether memory is short now, and how much is held. Returns whether pages may
    /// be held.
    pub fn may_hold(&mut self, short: bool, held: Bytes, now: Nanos) -> bool {
        self.short_since = short.then(|| self.short_since.unwrap_or(now));
        let long = self
            .short_since
            .is_some_and(|since| now - since >= PATIENCE);
        if long && held > Bytes::ZERO {
            let before = if now - self.until < FORGOTTEN {
                self.rest
            } else {
                Nanos::ZERO
            };
            self.rest = (before * 2).clamp(REST, LONGEST_REST);
            self.until = now + self.rest;
        }
        now >= self.until && !long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_shortage_releases_nothing() {
        let mut patience = ReleaseBackoff::default();
        for now in 1..20 {
            assert!(patience.may_hold(now % 4 != 0, Bytes(1), Nanos::seconds(now)));
        }
    }

    #[test]
    fn a_lasting_one_releases_all_for_ever_longer() {
        let mut patience = ReleaseBackoff::default();
        let mut held_again = |from: Nanos| {
            let mut now = from;
            while patience.may_hold(true, Bytes(1), now) {
                now += Nanos::seconds(1);
            }
            let released = now;
            while !patience.may_hold(false, Bytes::ZERO, now) {
                now += Nanos::seconds(1);
            }
            (released - from, now - released, now)
        };
        let (after, rest, now) = held_again(Nanos(1));
        assert_eq!((after, rest), (PATIENCE, REST));
        let (_, rest, now) = held_again(now);
        assert_eq!(rest, REST * 2);
        assert_eq!(held_again(now + FORGOTTEN * 2).1, REST);
    }

    #[test]
    fn who_holds_nothing_just_waits_for_better_times() {
        let mut patience = ReleaseBackoff::default();
        assert!(
            (0..100)
                .all(|now| patience.may_hold(true, Bytes::ZERO, Nanos::seconds(now)) == (now < 5))
        );
        assert!(patience.may_hold(false, Bytes::ZERO, Nanos::seconds(100)));
    }
}
