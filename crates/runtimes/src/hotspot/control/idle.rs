//! A program that has not worked for a minute keeps its live data, and room for its next requests. The rest
//! is free for others, though the limit would allow it.
//!
//! This holds for a short time only. A program that allocates nothing does not grow afterwards, and where a
//! collection frees less than expected, it is not asked for again and again.

use super::seen::Seen;
use plimsoll_unit::{MIB, SECOND};

/// How long a program rests before it is idle, nanoseconds.
const IDLE: u64 = 60 * SECOND;
/// How long it is then asked to give back, nanoseconds.
const ASKED: u64 = 20 * SECOND;
/// Room for the next requests, at least a quarter of the live data, bytes.
const ROOM: u64 = 32 * MIB;

/// The limit of a program with these `live` bytes that rests since then (nanoseconds), if it rests.
pub(super) fn limit(seen: &Seen, live: u64, since: Option<u64>) -> u64 {
    let rested = since.map_or(0, |since| seen.now_ns.saturating_sub(since));
    if !(IDLE..IDLE + ASKED).contains(&rested) {
        return seen.limit;
    }
    let needs = live.saturating_add((live / 4).max(ROOM));
    seen.limit.min(seen.native.saturating_add(needs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_just_become_idle_is_asked_for_what_it_may_keep() {
        let at = |seconds: u64, since: Option<u64>, live: u64| {
            let seen = Seen {
                now_ns: seconds * SECOND,
                limit: 1000 * MIB,
                native: 50 * MIB,
                ..Seen::default()
            };
            limit(&seen, live * MIB, since.map(|since| since * SECOND)) / MIB
        };
        assert_eq!(at(500, None, 100), 1000, "it works");
        assert_eq!(at(69, Some(10), 100), 1000, "not for long");
        assert_eq!(at(70, Some(10), 100), 182);
        assert_eq!(at(70, Some(10), 200), 300);
        assert_eq!(at(70, Some(10), 2000), 1000, "the limit holds");
        assert_eq!(at(90, Some(10), 100), 1000, "it has given back by now");
    }
}
