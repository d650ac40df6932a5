//! Corrections after a size has settled: which part of it is resident, and how much memory is
//! native.

use super::Ratios;
use super::state::Held;
use crate::hotspot::control::aim::{Aim, awaited, size};
use crate::hotspot::control::observation::{Action, Seen, slack, tolerance};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// How long after a resizing the use is expected to have settled.
const SETTLING: Nanos = Nanos::millis(700);

impl Held {
    /// Whether the use reflects the present size: there was time, and young collections filled the
    /// heap.
    pub(super) fn settled(&self, seen: &Seen, watch: &Watch) -> bool {
        let changed_at = self.since.max(watch.limit.changed_at);
        seen.now - changed_at > SETTLING
            && watch.collections.young > self.since_young.saturating_add(1)
            && !watch.peak.rises()
    }
}

impl Ratios {
    /// The program has stayed below the limit although it allocates, by more than the steps of the
    /// ratios explain. So not all that is committed is resident: raises the bias.
    pub(super) fn settle(
        &mut self,
        held: &mut Held,
        aim: Aim,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Option<Action> {
        // A larger size is the aim already, and a collection for it was not worth its cost: the use says
        // nothing of what the bias would do. The same gap counted at each look would double the size at last.
        let is_tried = aim.reachable <= size(seen, levers) + slack(seen.limit);
        if !is_tried || !held.settled(seen, watch) {
            return None;
        }
        let most = match levers.sized_by {
            // See `Learned::room`.
            SizedBy::HeapRatios if seen.spare > Bytes::ZERO => 0,
            _ => i64::try_from(watch.heap_size.at(seen).0).unwrap_or(i64::MAX),
        };
        let wanted = self.wanted_bias(aim, seen, levers, watch).min(most);
        let more = wanted.saturating_sub(self.learned.bias);
        if more <= i64::try_from(seen.limit.0 / 50).unwrap_or(i64::MAX) {
            return None;
        }
        // A smaller heap has smaller tables, so the last measurement of the native part may be too
        // large.
        if !std::mem::replace(&mut held.measured, true) {
            return Some(Action::Measure);
        }
        // Memory that is not resident now may become so after the next collection: G1 then takes
        // regions that it never touched and keeps those that it leaves. Half of the gap shows whether
        // that happens without exceeding the limit by all of it.
        self.learned.bias = match levers.sized_by {
            SizedBy::HeapRatios => self.learned.bias.saturating_add(more / 2),
            _ => wanted,
        };
        held.since = seen.now;
        held.since_young = watch.collections.young;
        None
    }

    /// The bias with which the resident part of the heap fills the room, bytes.
    fn wanted_bias(&self, aim: Aim, seen: &Seen, levers: &Levers, watch: &Watch) -> i64 {
        let signed = |bytes: Bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX);
        let peak = watch.peak.most();
        let below = seen.limit - tolerance(seen.limit);
        let awaited = awaited(watch.heap_size.at(seen), seen, levers, watch);
        let gap = below - peak - aim.unused() - awaited;
        let corrected = self.learned.bias.saturating_add(signed(gap));
        if levers.sized_by != SizedBy::HeapRatios {
            return corrected;
        }
        if peak > below {
            return self.learned.bias;
        }
        let resident = (peak - seen.native).0 as f64 / size(seen, levers).0.max(1) as f64;
        let room = watch.heap_size.at(seen).0 as f64;
        let filling = (room * (1.0 / resident.clamp(0.5, 1.0) - 1.0)) as i64;
        // After a size proved too large for this limit, larger steps are not tried. Memory that
        // became resident late may have been mistaken for that, though.
        if self.excess.lowered_at > watch.limit.changed_at {
            filling.min(corrected)
        } else {
            filling
        }
    }
}
