//! ZGC and Shenandoah: the size is `SoftMaxHeapSize`, in bytes; the machine's own cycles follow it.

use super::allowance::Allowance;
use super::watch::Watch;
use super::{Action, Seen, room, tolerance};
use crate::hotspot::levers::Levers;

/// How long after a change uses is trusted to have settled, nanoseconds: upward, and downward beside the uncommit delay.
const GROWING: u64 = 700_000_000;
const SETTLING: u64 = 1_700_000_000;

/// The state.
#[derive(Debug, Default)]
pub(super) struct SoftMax {
    set: u64,
    /// By which part of the room the soft maximum is above it: what the machine keeps free is not resident.
    bias: f64,
    changed_ns: u64,
    pauses: u64,
    pauses_since: u64,
    settled_cycles: u64,
}

impl SoftMax {
    pub(super) fn describe(&self) -> String {
        format!(
            "soft maximum {} MiB, bias {:.0} %",
            self.set >> 20,
            self.bias * 100.0
        )
    }

    pub(super) fn tick(
        &mut self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if watch.pauses != self.pauses {
            (self.pauses, self.pauses_since) = (watch.pauses, seen.now_ns);
        }
        self.settle(seen, levers, watch);
        let max = seen.heap.old.max.max(seen.heap.young.max);
        let least = watch.live.saturating_mul(levers.least_percent) / 100;
        let wanted = ((room(seen) as f64 * (1.0 + self.bias)) as u64)
            .max(least)
            .min(max)
            & !((2 << 20) - 1);
        if wanted > 0 && wanted.abs_diff(self.set) > (self.set / 200).max(2 << 20) {
            self.set = wanted;
            self.changed_ns = seen.now_ns;
            self.settled_cycles = watch.cycles;
            actions.push(Action::Set("SoftMaxHeapSize", wanted));
        }
        let over = seen.uses > seen.limit.saturating_add(tolerance(seen.limit));
        let idle = seen.now_ns.saturating_sub(self.pauses_since) > 1_000_000_000;
        if over && idle && allowance.must(seen.now_ns) {
            // Nothing collects, so nothing is found free.
            actions.push(Action::Collect);
            allowance.judged(false, seen.now_ns);
        } else if !over {
            allowance.judged(true, seen.now_ns);
        }
        actions
    }

    /// Corrects the bias by what the highest use came to: upward after a cycle at the new size, downward when there was time
    /// to give back.
    fn settle(&mut self, seen: &Seen, levers: &Levers, watch: &Watch) {
        let delay = u64::try_from(levers.delay.as_nanos())
            .unwrap_or(u64::MAX)
            .min(10_000_000_000);
        let since = self.changed_ns.max(watch.limit_changed_ns);
        let passed = seen.now_ns.saturating_sub(since);
        let (peak, room) = (watch.peak(), room(seen).max(1) as f64);
        let (aim, near) = (
            seen.limit.saturating_sub(tolerance(seen.limit) / 2),
            tolerance(seen.limit),
        );
        if passed >= SETTLING + delay && peak > seen.limit.saturating_add(near) {
            self.bias = (self.bias - (peak - seen.limit) as f64 / room).max(-0.33);
            self.changed_ns = seen.now_ns;
        } else if passed >= GROWING
            && aim.saturating_sub(peak) > near
            && watch.cycles > self.settled_cycles.saturating_add(1)
        {
            self.bias = (self.bias + 0.7 * (aim - peak) as f64 / room).min(0.33);
            self.changed_ns = seen.now_ns;
            self.settled_cycles = watch.cycles;
        }
    }
}
