//! Serial and Parallel: memory of the old generation that is resident although nothing lives there.
//!
//! A full collection at a low ratio gives it back. Where garbage fills the old generation again at once, the
//! machine's own collections deal with it when it is full, and it is taken for resident as it is committed.

use crate::hotspot::control::Seen;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::levers::{Levers, SizedBy};

/// An old generation that is full of garbage again within this time fills with it, and is taken for
/// one that does for so long, nanoseconds.
const REFILLED: u64 = 5_000_000_000;
const FILLS: u64 = 60_000_000_000;

/// What is known of the garbage there.
#[derive(Debug, Default)]
pub(super) struct OldGeneration {
    /// When it was last made small because garbage had filled it, nanoseconds; 0: never.
    tight_ns: u64,
    /// Until when it is taken for one that garbage fills, nanoseconds.
    fills_until: u64,
}

impl OldGeneration {
    /// Garbage fills it, so that it is resident as it is committed.
    pub(super) fn fills(&self, seen: &Seen) -> bool {
        seen.now_ns < self.fills_until
    }

    /// The program is over its limit with `room` bytes for its heap: whether the old generation is to be made
    /// small, which is noted.
    pub(super) fn tightens(
        &mut self,
        room: u64,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> bool {
        let as_planned = self.fills(seen) && seen.heap.committed() <= room;
        if stale(seen, levers, watch) <= seen.limit / 7 || as_planned {
            return false;
        }
        // Again so soon: what dies there comes as fast.
        if seen.now_ns.saturating_sub(self.tight_ns) < REFILLED && self.tight_ns > 0 {
            self.fills_until = seen.now_ns.saturating_add(FILLS);
        }
        self.tight_ns = seen.now_ns;
        true
    }
}

/// Old-generation memory that is resident although nothing lives there, bytes.
fn stale(seen: &Seen, levers: &Levers, watch: &Watch) -> u64 {
    match levers.sized_by {
        SizedBy::OldRatios { .. } => watch
            .old_peak
            .min(seen.heap.old.capacity)
            .saturating_sub(watch.live),
        _ => 0,
    }
}
