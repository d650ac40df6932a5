//! When a heap is enlarged: if that saves more time than the collection that does it costs.

use super::Ratios;
use crate::hotspot::control::aim::{Aim, size};
use crate::hotspot::control::allowance::Allowance;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::control::{Seen, slack};
use crate::hotspot::levers::Levers;

/// Where an excess ends the program, the heap does not grow for this long after the program was
/// over its limit, because more of the same may come. Nanoseconds.
const WARY: u64 = 3_000_000_000;

/// How many times its cost a collection has to save to be asked for beyond the share.
const PAYS: f64 = 4.0;

impl Ratios {
    /// Whether the reachable size exceeds the present size `now` (bytes) by enough to be worth a
    /// collection.
    pub(super) fn grows(
        &self,
        aim: &Aim,
        now: u64,
        seen: &Seen,
        watch: &Watch,
        allowance: &Allowance,
    ) -> bool {
        let more = aim.reachable.saturating_sub(now);
        let worth = watch.saved_ns(more, seen);
        !is_close(aim, now, seen)
            && !self.is_wary(seen)
            && worth.is_none_or(|saved| saved > allowance.cost())
    }

    /// Whether to hold back growth. Where an excess ends the program, a heap does not grow again
    /// right after memory was short.
    pub(super) fn is_wary(&self, seen: &Seen) -> bool {
        let lately = seen.now_ns.saturating_sub(self.pressed_ns) < WARY;
        seen.spare > 0 && self.pressed_ns > 0 && lately
    }

    /// Whether the machine has enlarged its heap by itself by more than an eighth since it was resized last.
    /// G1 makes it three times as large at once, where much time goes into collecting.
    pub(super) fn is_outgrown(&self, seen: &Seen, levers: &Levers) -> bool {
        self.made > 0 && size(seen, levers) > self.made.saturating_add(self.made / 8)
    }

    /// Called when a resizing begins. Learns by how much the machine enlarged its heap since the
    /// last one.
    pub(super) fn learn_creep(&mut self, seen: &Seen, levers: &Levers) {
        if self.made > 0 {
            let crept = size(seen, levers).saturating_sub(self.made);
            self.creep = (self.creep / 2).max(crept / 2);
        }
    }
}

/// Whether the reachable size exceeds the present size `now` (bytes) by too little to be worth a collection.
/// If the steps between sizes are large, a small change of the basis is not.
pub(super) fn is_close(aim: &Aim, now: u64, seen: &Seen) -> bool {
    aim.reachable.saturating_sub(now) <= slack(seen.limit).max(aim.step / 4)
}

/// Whether the heap can grow by more than a quarter after a change of the limit. That is worth one
/// collection because it saves others.
pub(super) fn is_much_more(aim: &Aim, now: u64, seen: &Seen, watch: &Watch) -> bool {
    aim.reachable > now.saturating_add(now / 4) && watch.changed_lately(seen)
}

/// Whether a larger heap soon saves several times the pause time that the collection costs which
/// makes it larger. Then it is worth more than the share of the time that such collections may take:
/// a heap that is too small for its program takes the rest of the time for itself.
pub(super) fn pays(aim: &Aim, now: u64, seen: &Seen, watch: &Watch, allowance: &Allowance) -> bool {
    let saved = watch.saved_ns(aim.reachable.saturating_sub(now), seen);
    allowance.cost() > 0.0 && saved.is_some_and(|saved| saved > PAYS * allowance.cost())
}
