//! A program that has not worked for a minute keeps its live data, and room for its next requests. The rest
//! is free for others, though the limit would allow it.
//!
//! This holds for a short time only. A program that allocates nothing does not grow afterwards, and where a
//! collection frees less than expected, it is not asked for again and again.

use super::observation::Seen;
use plimsoll_unit::{Bytes, Nanos};

/// How long a program rests before it is idle.
const IDLE: Nanos = Nanos::seconds(60);
/// How long it is then asked to give back.
const ASKED: Nanos = Nanos::seconds(20);
/// Room for the next requests, at least a quarter of the live data.
const ROOM: Bytes = Bytes::mib(32);

/// The state of a program that rests.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The rest in which it was asked to give back, by its begin, and the number of young
    /// collections then.
    asked: Option<(Nanos, u64)>,
}

impl Idle {
    /// Takes in a moment of a program that rests since then, if it rests, after this number of
    /// `young` collections. It is asked once for each rest after which it has worked: collections that we ask
    /// for may look like work.
    pub(super) fn look(&mut self, now: Nanos, since: Option<Nanos>, young: u64) {
        let Some(since) = since.filter(|&since| is_asked(now, since)) else {
            return;
        };
        let is_new = |(asked, then): (Nanos, u64)| asked != since && then != young;
        if self.asked.is_none_or(is_new) {
            self.asked = Some((since, young));
        }
    }

    /// The limit of a program with these `live` bytes that rests since then, if it rests.
    pub(super) fn limit(&self, seen: &Seen, live: Bytes, since: Option<Nanos>) -> Bytes {
        let asked = self.asked.map(|(asked, _)| asked);
        let since = since.filter(|&since| asked == Some(since) && is_asked(seen.now, since));
        if since.is_none() {
            return seen.limit;
        }
        let needs = live + (live / 4).max(ROOM);
        seen.limit.min(seen.native + needs)
    }
}

/// Whether a rest that began at `since` is as long as a program is asked in.
fn is_asked(now: Nanos, since: Nanos) -> bool {
    (IDLE..IDLE + ASKED).contains(&(now - since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::MIB;

    #[test]
    fn only_who_has_just_become_idle_is_asked_for_what_it_may_keep() {
        let at = |seconds: u64, since: Option<u64>, live: u64| {
            let seen = Seen {
                now: Nanos::seconds(seconds),
                limit: Bytes::mib(1000),
                native: Bytes::mib(50),
                ..Seen::default()
            };
            let since = since.map(Nanos::seconds);
            let mut idle = Idle::default();
            idle.look(seen.now, since, 7);
            idle.limit(&seen, Bytes::mib(live), since).0 / MIB
        };
        assert_eq!(at(500, None, 100), 1000, "it works");
        assert_eq!(at(69, Some(10), 100), 1000, "not for long");
        assert_eq!(at(70, Some(10), 100), 182);
        assert_eq!(at(70, Some(10), 200), 300);
        assert_eq!(at(70, Some(10), 2000), 1000, "the limit holds");
        assert_eq!(at(90, Some(10), 100), 1000, "it has given back by now");
    }

    #[test]
    fn it_is_asked_again_only_after_it_has_worked() {
        let mut idle = Idle::default();
        let mut asks = |seconds: u64, since: u64, young: u64| {
            let seen = Seen {
                now: Nanos::seconds(seconds),
                limit: Bytes::mib(1000),
                ..Seen::default()
            };
            let since = Some(Nanos::seconds(since));
            idle.look(seen.now, since, young);
            idle.limit(&seen, Bytes::mib(1), since) < seen.limit
        };
        assert!(asks(70, 10, 7) && asks(75, 10, 7));
        assert!(!asks(170, 100, 7), "there was no collection of its own");
        assert!(asks(370, 300, 8));
    }
}
