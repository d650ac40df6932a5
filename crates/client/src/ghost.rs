//! The worth of more memory to a cache, by a ghost list of keys that it evicted lately. A miss of one of
//! these would be a hit in a cache that is larger by as much as the list stands for. Pure: no clock.
//!
//! `clients/vectors/ghost.json` has steps and their results, for clients in every language.

use plimsoll_unit::{Bytes, MIB, Nanos, SECOND};
use std::collections::{HashMap, VecDeque};

/// The list stands for this part of the cache's size more, and for a MiB at least.
const PART: u64 = 8;
/// Shortest time over which is measured.
const MEASURE_OVER: Nanos = Nanos(SECOND);
/// The worth of before is forgotten over this time.
const SMOOTH_OVER: Nanos = Nanos::seconds(8);

/// The keys that a cache evicted last, by a 64-bit hash. It takes some 60 bytes for each of an eighth of the
/// cache's entries. A cache with very many small ones can tell it of every n-th hash alone, and multiply
/// bytes and costs by n.
#[derive(Debug)]
pub struct Ghost {
    /// Its keys, with their bytes and the number of the eviction.
    keys: HashMap<u64, (u64, u64)>,
    /// The same keys, oldest first. Some were evicted again since, or came back.
    order: VecDeque<(u64, u64)>,
    /// Evictions so far.
    evictions: u64,
    /// Bytes of its keys' entries, and how many there may be.
    held: u64,
    capacity: u64,
    /// Time that hits in the list would have saved, since `begun`.
    saved: Nanos,
    begun: Nanos,
    /// Nanoseconds per second and MiB, smoothed; `None` before the first measurement.
    worth: Option<f64>,
}

impl Ghost {
    /// An empty one of a cache that begins now.
    #[must_use]
    pub fn new(now: Nanos) -> Ghost {
        Ghost {
            keys: HashMap::new(),
            order: VecDeque::new(),
            evictions: 0,
            held: 0,
            capacity: MIB,
            saved: Nanos::ZERO,
            begun: now,
            worth: None,
        }
    }

    /// The cache has dropped an entry of this size to make room, and is of size `left` now.
    pub fn evicted(&mut self, key: u64, bytes: Bytes, left: Bytes) {
        self.forget(key);
        self.evictions += 1;
        self.keys.insert(key, (bytes.0, self.evictions));
        self.order.push_back((key, self.evictions));
        self.held = self.held.saturating_add(bytes.0);
        self.capacity = (left.0 / PART).max(MIB);
        while self.held > self.capacity
            && let Some((oldest, number)) = self.order.pop_front()
        {
            if self.keys.get(&oldest).is_some_and(|key| key.1 == number) {
                self.forget(oldest);
            }
        }
    }

    /// The cache did not have an entry, and making it took this long.
    pub fn missed(&mut self, key: u64, cost: Nanos) {
        if self.forget(key) {
            self.saved += cost;
        }
    }

    /// Nanoseconds per second that one more MiB would have saved the cache lately; `None` in the first
    /// second. To be reported as [`worth`](plimsoll_wire::messages::Report::worth).
    pub fn worth(&mut self, now: Nanos) -> Option<u64> {
        let took = now - self.begun;
        if took >= MEASURE_OVER {
            let seconds = took.0 as f64 / SECOND as f64;
            let mib = self.capacity as f64 / MIB as f64;
            let rate = self.saved.0 as f64 / seconds / mib;
            let part = took.0 as f64 / (took.0 as f64 + SMOOTH_OVER.0 as f64);
            self.worth = Some(
                self.worth
                    .map_or(rate, |worth| worth + part * (rate - worth)),
            );
            (self.saved, self.begun) = (Nanos::ZERO, now);
        }
        self.worth.map(|worth| worth.round() as u64)
    }

    /// Takes a key out. Whether it was there.
    fn forget(&mut self, key: u64) -> bool {
        let found = self.keys.remove(&key);
        self.held -= found.map_or(0, |(bytes, _)| bytes);
        // Keys that came back leave their places behind; these must not pile up.
        if self.order.len() > 2 * self.keys.len() + 64 {
            let keys = &self.keys;
            self.order
                .retain(|(key, number)| keys.get(key).is_some_and(|one| one.1 == *number));
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Bytes = Bytes::mib(80);

    fn evicts(ghost: &mut Ghost, keys: std::ops::Range<u64>) {
        for key in keys {
            ghost.evicted(key, Bytes::mib(1), SIZE);
        }
    }

    #[test]
    fn misses_of_what_was_evicted_lately_count() {
        let mut ghost = Ghost::new(Nanos::ZERO);
        assert_eq!(ghost.worth(Nanos::millis(500)), None, "too early");
        evicts(&mut ghost, 0..20);
        // Ten MiB stand for the ten that were evicted last.
        for key in 0..20 {
            ghost.missed(key, Nanos::millis(5));
            ghost.missed(key, Nanos::millis(5));
        }
        let worth = 10 * Nanos::millis(5).0 / 10;
        assert_eq!(ghost.worth(Nanos::seconds(1)), Some(worth));
        assert_eq!(ghost.worth(Nanos::seconds(1)), Some(worth), "at once again");
        let later = ghost.worth(Nanos::seconds(9)).unwrap();
        assert_eq!(later, worth / 2, "half is forgotten");
    }

    #[test]
    fn a_cache_that_evicts_nothing_gains_nothing() {
        let mut ghost = Ghost::new(Nanos::ZERO);
        for key in 0..100 {
            ghost.missed(key, Nanos::millis(5));
        }
        assert_eq!(ghost.worth(Nanos::seconds(5)), Some(0));
    }

    proptest! {
        #[test]
        fn it_stays_small_and_its_sums_hold(
            steps in prop::collection::vec((any::<bool>(), 0..50u64, 0..4 * MIB), 0..500),
        ) {
            let mut ghost = Ghost::new(Nanos::ZERO);
            for (evicts, key, bytes) in steps {
                if evicts {
                    ghost.evicted(key, Bytes(bytes), SIZE);
                } else {
                    ghost.missed(key, Nanos(bytes));
                }
                prop_assert!(ghost.held <= ghost.capacity);
                prop_assert_eq!(ghost.held, ghost.keys.values().map(|key| key.0).sum::<u64>());
                prop_assert!(ghost.order.len() <= 2 * ghost.keys.len() + 65);
            }
        }
    }
}
