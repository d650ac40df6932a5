//! When pages are released because memory is short. Not at once: locking pages makes the kernel
//! reclaim others, and the ladder needs some seconds to restore the reserve. Not too late either:
//! the programs' own memory comes before their files.

/// Memory must be short for this long, ns.
const PATIENCE: u64 = 5_000_000_000;
/// Nothing is held again for this long, ns; doubles each time, up to the longest.
const REST: u64 = 60_000_000_000;
const LONGEST_REST: u64 = 960_000_000_000;
/// Without a release for this long, the next rest is a short one again, ns.
const FORGOTTEN: u64 = 1_800_000_000_000;

/// Whether pages may be held. All times are ns of a monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseBackoff {
    short_since: Option<u64>,
    /// Nothing is held before this time.
    until: u64,
    rest: u64,
}

impl ReleaseBackoff {
    /// Takes in whether memory is short now, and how much is held (bytes). Returns whether pages may
    /// be held.
    pub fn may_hold(&mut self, short: bool, held: u64, now: u64) -> bool {
        self.short_since = short.then(|| self.short_since.unwrap_or(now));
        let long = self
            .short_since
            .is_some_and(|since| now.saturating_sub(since) >= PATIENCE);
        if long && held > 0 {
            let before = if now.saturating_sub(self.until) < FORGOTTEN {
                self.rest
            } else {
                0
            };
            self.rest = (before * 2).clamp(REST, LONGEST_REST);
            self.until = now.saturating_add(self.rest);
        }
        now >= self.until && !long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::SECOND;

    #[test]
    fn a_moment_of_shortage_releases_nothing() {
        let mut patience = ReleaseBackoff::default();
        for now in 1..20 {
            assert!(patience.may_hold(now % 4 != 0, 1, now * SECOND));
        }
    }

    #[test]
    fn a_lasting_one_releases_all_for_ever_longer() {
        let mut patience = ReleaseBackoff::default();
        let mut held_again = |from: u64| {
            let mut now = from;
            while patience.may_hold(true, 1, now) {
                now += SECOND;
            }
            let released = now;
            while !patience.may_hold(false, 0, now) {
                now += SECOND;
            }
            (released - from, now - released, now)
        };
        let (after, rest, now) = held_again(1);
        assert_eq!((after, rest), (PATIENCE, REST));
        let (_, rest, now) = held_again(now);
        assert_eq!(rest, 2 * REST);
        assert_eq!(held_again(now + 2 * FORGOTTEN).1, REST);
    }

    #[test]
    fn who_holds_nothing_just_waits_for_better_times() {
        let mut patience = ReleaseBackoff::default();
        assert!((0..100).all(|now| patience.may_hold(true, 0, now * SECOND) == (now < 5)));
        assert!(patience.may_hold(false, 0, 100 * SECOND));
    }
}
