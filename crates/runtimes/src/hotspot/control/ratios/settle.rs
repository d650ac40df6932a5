//! What is corrected when a size has settled: which part of it is resident, and how much is native.

use super::Ratios;
use crate::hotspot::control::aim::{Aim, size};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::control::{Action, Seen, tolerance};
use crate::hotspot::levers::{Levers, SizedBy};

/// How long after a resizing uses is trusted to have settled, nanoseconds.
const SETTLING: u64 = 700_000_000;

impl Ratios {
    /// What is in use has had time to show, and shows: a young collection or two filled the size
    /// that there is.
    pub(super) fn settled(&self, seen: &Seen, watch: &Watch) -> bool {
        let changed_ns = self.resized_ns.max(watch.limit_changed_ns);
        seen.now_ns.saturating_sub(changed_ns) > SETTLING
            && watch.young > self.resized_young.saturating_add(1)
            && !watch.rising()
    }

    /// Under the limit for long, although it allocates, by more than the steps of the ratios
    /// explain: not all that is committed is resident.
    pub(super) fn settle(
        &mut self,
        aim: Aim,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Option<Action> {
        if !self.settled(seen, watch) {
            return None;
        }
        let most = i64::try_from(watch.heap_size.at(seen)).unwrap_or(i64::MAX);
        let wanted = self.wanted_bias(aim, seen, levers, watch).min(most);
        let more = wanted.saturating_sub(self.bias);
        if more <= i64::try_from(seen.limit / 50).unwrap_or(i64::MAX) {
            return None;
        }
        // A smaller heap has smaller tables beside it: the native part that was measured may be
        // that of a larger one.
        if !std::mem::replace(&mut self.measured, true) {
            return Some(Action::Measure);
        }
        self.bias = wanted;
        self.resized_ns = seen.now_ns;
        self.resized_young = watch.young;
        None
    }

    /// The bias that makes the resident part of the heap fill the room.
    fn wanted_bias(&self, aim: Aim, seen: &Seen, levers: &Levers, watch: &Watch) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let peak = watch.peak();
        let below = seen.limit.saturating_sub(tolerance(seen.limit));
        let gap = below.saturating_sub(peak).saturating_sub(aim.unused());
        let corrected = self.bias.saturating_add(signed(gap));
        if levers.sized_by != SizedBy::HeapRatios {
            return corrected;
        }
        if peak > below {
            return self.bias;
        }
        let resident = peak.saturating_sub(seen.native) as f64 / size(seen, levers).max(1) as f64;
        let room = watch.heap_size.at(seen) as f64;
        let filling = (room * (1.0 / resident.clamp(0.5, 1.0) - 1.0)) as i64;
        // After a size that proved too much for this limit no larger step is tried, but memory that
        // came late may have looked like that.
        match self.lowered_ns > watch.limit_changed_ns {
            true => filling.min(corrected),
            false => filling,
        }
    }
}
