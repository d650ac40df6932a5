//! Serial and Parallel: memory of the old generation that is resident although nothing in it is
//! live.
//!
//! A full collection at a low ratio returns this memory. If garbage fills the old generation again
//! at once, it is left to the machine's own collections, and all that is committed counts as
//! resident.

use crate::hotspot::control::observation::Seen;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};

/// If garbage fills the old generation again within this time, it is expected to go on doing so,
/// nanoseconds.
const REFILLED: u64 = 5_000_000_000;
/// How long that is expected, nanoseconds.
const FILLS: u64 = 60_000_000_000;

/// Garbage in the old generation, as far as known.
#[derive(Debug, Default)]
pub(super) struct OldGeneration {
    /// When the generation was last made small because garbage had filled it, nanoseconds; 0:
    /// never.
    tight_ns: u64,
    /// Until when garbage is expected to fill it, nanoseconds.
    fills_until: u64,
}

impl OldGeneration {
    /// Whether garbage fills the generation, so that all that is committed is resident.
    pub(super) fn fills(&self, seen: &Seen) -> bool {
        seen.now_ns < self.fills_until
    }

    /// Whether to make the old generation small, because the program is over its limit with `room`
    /// bytes for its heap. Notes the time if so.
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
        // It filled again so soon because garbage arrives that fast.
        if seen.now_ns.saturating_sub(self.tight_ns) < REFILLED && self.tight_ns > 0 {
            self.fills_until = seen.now_ns.saturating_add(FILLS);
        }
        self.tight_ns = seen.now_ns;
        true
    }
}

/// Bytes of the old generation that are resident but not live.
fn stale(seen: &Seen, levers: &Levers, watch: &Watch) -> u64 {
    match levers.sized_by {
        SizedBy::OldRatios { .. } => watch
            .touched
            .old
            .min(seen.heap.old.capacity)
            .saturating_sub(watch.live.bytes),
        _ => 0,
    }
}
