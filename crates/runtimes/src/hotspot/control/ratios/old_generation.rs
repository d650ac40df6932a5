//! Serial and Parallel: memory of the old generation that is resident although nothing in it is
//! live.
//!
//! A full collection at a low ratio returns this memory. If garbage fills the old generation again
//! at once, it is left to the machine's own collections, and all that is committed counts as
//! resident. With an agent, one collection at the final ratio does: the agent gives back what it frees.

use crate::hotspot::control::observation::{Seen, tolerance};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// If garbage fills the old generation again within this time, it is expected to go on doing so.
const REFILLED: Nanos = Nanos::seconds(5);
/// How long that is expected.
const FILLS: Nanos = Nanos::seconds(60);

/// Garbage in the old generation, as far as known.
#[derive(Debug, Default)]
pub(super) struct OldGeneration {
    /// When the generation was last made small because garbage had filled it; 0: never.
    tight_at: Nanos,
    /// Until when garbage is expected to fill it.
    fills_until: Nanos,
}

impl OldGeneration {
    /// Whether garbage fills the generation, so that all that is committed is resident.
    pub(super) fn fills(&self, seen: &Seen) -> bool {
        seen.now < self.fills_until && !seen.frees_garbage()
    }

    /// Whether to collect the garbage of the old generation, because the program is over its limit with
    /// `room` bytes for its heap. Notes the time if so.
    pub(super) fn tightens(
        &mut self,
        room: Bytes,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> bool {
        let as_planned = self.fills(seen) && seen.heap.committed() <= room;
        let much = if seen.frees_garbage() {
            (seen.uses - seen.limit).max(tolerance(seen.limit))
        } else {
            seen.limit / 7
        };
        if stale(seen, levers, watch) <= much || as_planned {
            return false;
        }
        // It filled again so soon because garbage arrives that fast.
        if seen.now - self.tight_at < REFILLED && self.tight_at > Nanos::ZERO {
            self.fills_until = seen.now + FILLS;
        }
        self.tight_at = seen.now;
        true
    }
}

/// Bytes of the old generation that are resident but not live.
fn stale(seen: &Seen, levers: &Levers, watch: &Watch) -> Bytes {
    match levers.sized_by {
        SizedBy::OldRatios { .. } => watch.touched.old_resident(seen) - watch.live.bytes,
        _ => Bytes::ZERO,
    }
}
