//! How large the resident heap may be. A policy decides from what the counters show.
//!
//! The policy does not decide which size a lever produces ([`super::aim`]), which part of that is
//! resident (the learned *bias*), or when a collection is asked for.

use super::observation::Seen;
use plimsoll_policy::sizing::{Ended, HotSpot, Sizing};
use plimsoll_unit::{Bytes, Nanos};

/// How many times what lives a heap has before more is kept free than the surprise of any program.
const ENOUGH: u64 = 2;

/// A policy, and the last observations that it was given.
#[derive(Debug, Default)]
pub(super) struct HeapSize {
    /// The policy.
    sizing: HotSpot,
    /// Bytes that the program allocated so far, as collections show.
    allocated: Bytes,
    /// Time of collections and major faults since the start, as of the last collection that told
    /// the live bytes.
    last: Option<(Nanos, u64)>,
    /// The live bytes, as far as they are known.
    live: Bytes,
}

impl HeapSize {
    /// Takes in one moment. `live`: the live bytes. `told`: a collection that tells them ended since
    /// the last call.
    pub(super) fn look(&mut self, seen: &Seen, live: Bytes, told: bool) {
        self.live = live;
        self.sizing.bounded(self.bound(seen));
        let now = (seen.collecting(), seen.major_faults);
        let last = *self.last.get_or_insert(now);
        if !told {
            return;
        }
        self.last = Some(now);
        let took = now.0 - last.0;
        self.sizing.ended(&Ended {
            now: seen.now,
            took,
            cost: took,
            live,
            allocated: self.allocated,
            // The machine takes all that its maximum allows.
            growth: Bytes::MAX,
            // A major fault waits for memory that the kernel had taken.
            stalls: now.1.saturating_sub(last.1),
            ..Ended::default()
        });
    }

    /// Notes that the program allocated `bytes` more.
    pub(super) fn allocated(&mut self, bytes: f64) {
        self.allocated += Bytes(bytes as u64);
    }

    /// The bytes that the resident heap may take at the limit of `seen`, which may be the present
    /// moment or a hypothetical one.
    pub(super) fn at(&self, seen: &Seen) -> Bytes {
        let mut sizing = self.sizing.clone();
        sizing.bounded(self.bound(seen));
        sizing.size()
    }

    /// The bytes that the process is meant to use with a heap of that size. If its collector gives memory
    /// back in time, that is the limit: then the heap can still make room for native memory.
    pub(super) fn intended(&self, seen: &Seen) -> Bytes {
        match seen.ample {
            Bytes::ZERO => seen.limit,
            _ => (seen.native + self.at(seen)).min(seen.limit),
        }
    }

    /// The upper bound of the resident heap.
    fn bound(&self, seen: &Seen) -> Bytes {
        let margin = (seen.limit / 128).min(Bytes::mib(12));
        let beside = seen.limit - seen.native;
        let room = beside - margin.max(seen.spare);
        if seen.ample == Bytes::ZERO {
            return room;
        }
        // Up to `enough`, collections are cheap. Memory above it is given up first.
        let enough = self.live * ENOUGH;
        room.min((beside - seen.ample).max(enough))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;

    #[test]
    fn it_may_take_what_the_limit_leaves_beside_native_memory_and_what_is_kept_free() {
        let seen = |limit, spare| Seen {
            limit: Bytes::mib(limit),
            native: Bytes::mib(100),
            spare: Bytes::mib(spare),
            ample: Bytes::mib(spare),
            ..Seen::default()
        };
        let mut size = HeapSize::default();
        size.look(&seen(1024, 0), Bytes::mib(10), true);
        assert_eq!(size.at(&seen(1024, 0)), Bytes::mib(916), "a 128th is left");
        assert_eq!(
            size.at(&seen(1024, 50)),
            Bytes::mib(874),
            "it is in what is kept"
        );
        assert_eq!(size.at(&seen(4096, 0)), Bytes((4096 - 100 - 12) * MIB));
        assert_eq!(size.at(&seen(64, 0)), Bytes::ZERO);
        assert_eq!(
            size.at(&seen(1024, 0)),
            Bytes::mib(916),
            "thoughts change nothing"
        );
    }

    #[test]
    fn what_is_kept_free_is_not_meant_to_be_used() {
        let seen = Seen {
            limit: Bytes::mib(1000),
            native: Bytes::mib(50),
            spare: Bytes::mib(160),
            ample: Bytes::mib(160),
            ..Seen::default()
        };
        let mut size = HeapSize::default();
        size.look(&seen, Bytes::mib(100), true);
        assert_eq!(
            (size.at(&seen).0 / MIB, size.intended(&seen).0 / MIB),
            (790, 840)
        );
        let elsewhere = Seen {
            ample: Bytes::ZERO,
            ..seen
        };
        assert_eq!(
            size.intended(&elsewhere),
            Bytes::mib(1000),
            "where nothing is kept in advance"
        );
    }

    #[test]
    fn more_is_kept_free_as_far_as_enough_is_left_for_what_lives() {
        let seen = Seen {
            limit: Bytes::mib(240),
            native: Bytes::mib(40),
            spare: Bytes::mib(60),
            ample: Bytes::mib(120),
            ..Seen::default()
        };
        let at = |live| {
            let mut size = HeapSize::default();
            size.look(&seen, Bytes::mib(live), true);
            size.at(&seen).0 / MIB
        };
        assert_eq!([at(20), at(45), at(100)], [80, 90, 140]);
    }
}
