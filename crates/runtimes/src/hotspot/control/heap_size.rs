//! How large the resident heap may be. A policy decides from what the counters show.
//!
//! The policy does not decide which size a lever produces ([`super::aim`]), which part of that is
//! resident (the learned *bias*), or when a collection is asked for.

use super::Seen;
use plimsoll_policy::sizing::{Ended, HotSpot, Sizing};

/// A policy, and the last observations that it was given.
#[derive(Debug, Default)]
pub(super) struct HeapSize {
    /// The policy.
    sizing: HotSpot,
    /// Bytes that the program allocated so far, as collections show.
    allocated: u64,
    /// Nanoseconds in pauses and major faults since the start, as of the last collection that told
    /// the live bytes.
    last: Option<(u64, u64)>,
}

impl HeapSize {
    /// Takes in one moment. `live`: the live bytes, if a collection that tells them ended since the
    /// last call.
    pub(super) fn look(&mut self, seen: &Seen, live: Option<u64>) {
        self.sizing.bounded(bound(seen));
        let now = (seen.heap.collection_ns(), seen.major_faults);
        let last = *self.last.get_or_insert(now);
        let Some(live) = live else { return };
        self.last = Some(now);
        let took = now.0.saturating_sub(last.0);
        self.sizing.ended(&Ended {
            now: seen.now_ns,
            took,
            cost: took,
            live,
            allocated: self.allocated,
            // The machine takes all that its maximum allows.
            growth: u64::MAX,
            // A major fault waits for memory that the kernel had taken.
            stalls: now.1.saturating_sub(last.1),
            ..Ended::default()
        });
    }

    /// Notes that the program allocated `bytes` more.
    pub(super) fn allocated(&mut self, bytes: f64) {
        self.allocated = self.allocated.saturating_add(bytes as u64);
    }

    /// The bytes that the resident heap may take at the limit of `seen`, which may be the present
    /// moment or a hypothetical one.
    pub(super) fn at(&self, seen: &Seen) -> u64 {
        let mut sizing = self.sizing.clone();
        sizing.bounded(bound(seen));
        sizing.size()
    }
}

/// The upper bound of the resident heap, bytes.
fn bound(seen: &Seen) -> u64 {
    let margin = (seen.limit / 128).min(12 << 20);
    seen.limit
        .saturating_sub(seen.native)
        .saturating_sub(margin.max(seen.spare))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_may_take_what_the_limit_leaves_beside_native_memory_and_what_is_kept_free() {
        let seen = |limit, spare| Seen {
            limit: limit * MIB,
            native: 100 * MIB,
            spare: spare * MIB,
            ..Seen::default()
        };
        let mut size = HeapSize::default();
        size.look(&seen(1024, 0), Some(10 * MIB));
        assert_eq!(size.at(&seen(1024, 0)), 916 * MIB, "a 128th is left");
        assert_eq!(size.at(&seen(1024, 50)), 874 * MIB, "it is in what is kept");
        assert_eq!(size.at(&seen(4096, 0)), (4096 - 100 - 12) * MIB);
        assert_eq!(size.at(&seen(64, 0)), 0);
        assert_eq!(
            size.at(&seen(1024, 0)),
            916 * MIB,
            "thoughts change nothing"
        );
    }
}
