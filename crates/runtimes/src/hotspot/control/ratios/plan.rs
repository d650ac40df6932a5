//! Chooses the size to aim at, and the kind of collection that produces it.

use super::{Ratios, Resizing};
use crate::hotspot::control::aim::Aim;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::control::{SMALL, Seen};
use crate::hotspot::levers::Levers;

impl Ratios {
    /// The aim for a limit, and whether to reach it by a collection that stops the program.
    pub(super) fn plan(
        &self,
        urgent: bool,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> (bool, Aim) {
        let beside = self.aim(false, seen, levers, watch);
        let whole = self.concurrent && self.must_stop(&beside, urgent, seen, watch);
        match whole {
            true => (true, self.aim(true, seen, levers, watch)),
            false => (false, beside),
        }
    }

    pub(super) fn aim(&self, whole: bool, seen: &Seen, levers: &Levers, watch: &Watch) -> Aim {
        let room = watch.heap_size.at(seen).saturating_add_signed(self.bias);
        // If the machine enlarges its heap by itself, aim that much lower, or the program would
        // soon be over its limit again.
        let room = room.saturating_sub(self.creep.min(room / 8));
        let found = match (self.concurrent, whole) {
            (true, false) => (watch.live_estimate(seen), self.basis(seen)),
            _ => [watch.compact_estimate(seen).max(1); 2].into(),
        };
        Aim::of(room, found, self.old.fills(seen), seen, levers, watch)
    }

    /// The most that the program could use out of `seen.available`, bytes, if the steps of the
    /// ratios would leave much of that unused; others can have the rest. With few live bytes the
    /// steps are large (with 10 MiB: from 500 MiB to 1000 MiB).
    pub(in super::super) fn attainable(
        &self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Option<u64> {
        let could = Seen {
            limit: seen.available,
            ..*seen
        };
        let (_, aim) = self.plan(false, &could, levers, watch);
        let unused = aim.unused();
        if seen.available == 0 || !watch.whole_seen || unused <= seen.available / 8 {
            return None;
        }
        // Never less than the program holds. A little more, so that a slightly smaller basis does
        // not lose the step.
        let used = (seen.available - unused.min(seen.available)).max(seen.uses);
        Some(used.saturating_add(used / 16).min(seen.available))
    }

    /// The bytes in use when a concurrent cycle applies the ratios. The program cannot allocate
    /// more than is committed meanwhile.
    pub(super) fn basis(&self, seen: &Seen) -> u64 {
        let used = seen.heap.old.used;
        let rest = seen.heap.committed().saturating_sub(used);
        used.saturating_add(self.drift.min(rest)).max(1)
    }

    /// Learns the drift: the size that the ratios produced tells the basis that they were applied
    /// to. At the maximum size it tells only a lower bound.
    pub(super) fn learn_drift(&mut self, done: Resizing, now: u64, max: u64) {
        let basis = now as f64 * (100 - done.percent.min(99)) as f64 / 100.0;
        let drift = (basis as u64).saturating_sub(done.basis);
        self.drift = match self.drift {
            known if now >= max => known.max(drift),
            0 => drift,
            known => known.midpoint(drift),
        };
    }

    /// Whether to use a collection that stops the program. What a concurrent cycle finds in use is
    /// mostly garbage and new allocation, which cannot be predicted; a collection that stops the
    /// program finds the live bytes. With many live bytes such a pause is used only when urgent,
    /// and only after a concurrent cycle failed.
    pub(super) fn must_stop(&self, beside: &Aim, urgent: bool, seen: &Seen, watch: &Watch) -> bool {
        let live = watch.live_estimate(seen);
        if live > SMALL {
            return urgent && self.in_vain;
        }
        let worst = beside.at(seen.heap.committed());
        let overshoots = worst > beside.size.saturating_add(beside.size / 8);
        urgent || overshoots || self.drift > live / 2
    }
}
