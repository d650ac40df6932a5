//! When a heap is made larger: where that saves more than the collection costs that makes it.

use super::Ratios;
use crate::hotspot::control::aim::{Aim, size};
use crate::hotspot::control::allowance::Allowance;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::control::{Seen, slack};
use crate::hotspot::levers::Levers;

/// Where an excess ends the program: so long after it was over its limit its heap does not grow,
/// nanoseconds. What came may not be all that comes.
const WARY: u64 = 3_000_000_000;

impl Ratios {
    /// Whether the size in reach is so much larger than `now` bytes that it is worth its collection.
    pub(super) fn grows(
        &self,
        aim: &Aim,
        now: u64,
        seen: &Seen,
        watch: &Watch,
        allowance: &Allowance,
    ) -> bool {
        // Where sizes are far apart, a little more or less at the basis is not worth a collection.
        let more = aim.reachable.saturating_sub(now);
        let worth = watch.saved_ns(more, seen);
        more > slack(seen.limit).max(aim.step / 4)
            && !self.is_wary(seen)
            && worth.is_none_or(|saved| saved > allowance.cost())
    }

    /// Where an excess ends the program, memory that was just too little is not given back to the
    /// heap at once.
    pub(super) fn is_wary(&self, seen: &Seen) -> bool {
        let lately = seen.now_ns.saturating_sub(self.pressed_ns) < WARY;
        seen.spare > 0 && self.pressed_ns > 0 && lately
    }

    /// A resizing begins: by how much the machine made its heap larger by itself since the last.
    pub(super) fn learn_creep(&mut self, seen: &Seen, levers: &Levers) {
        if self.made > 0 {
            let crept = size(seen, levers).saturating_sub(self.made);
            self.creep = (self.creep / 2).max(crept / 2);
        }
    }
}

/// Room for a quarter more is worth its one collection: it saves others.
pub(super) fn is_much_more(aim: &Aim, now: u64, seen: &Seen, watch: &Watch) -> bool {
    aim.reachable > now.saturating_add(now / 4) && watch.changed_lately(seen)
}
