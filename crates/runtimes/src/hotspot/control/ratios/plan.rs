//! What size is aimed at, and by which kind of collection it is made.

use super::{Ratios, Resizing};
use crate::hotspot::control::Seen;
use crate::hotspot::control::aim::Aim;
use crate::hotspot::control::watch::Watch;
use crate::hotspot::levers::Levers;

/// Live bytes that are collected within about a fifth of a second.
const SMALL: u64 = 256 << 20;

impl Ratios {
    /// What to make of a limit, and whether by a collection that stops the program.
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
        // A heap that grows by itself is made smaller by so much more, or it would be over its
        // limit again at once.
        let room = room.saturating_sub(self.creep.min(room / 8));
        let found = match (self.concurrent, whole) {
            (true, false) => (watch.live_estimate(seen), self.basis(seen)),
            _ => [watch.compact_estimate(seen).max(1); 2].into(),
        };
        Aim::of(room, found, self.old.fills(seen), seen, levers, watch)
    }

    /// The most that it can make use of while it could have `seen.available`, where the steps of
    /// the ratios leave much of that unused: somebody else can have the rest. With little that
    /// lives the sizes are far apart (10 MiB: 500 MiB, 1000 MiB).
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
        // What it holds it keeps. Some more, so that a little less at the basis does not cost the step.
        let used = (seen.available - unused.min(seen.available)).max(seen.uses);
        Some(used.saturating_add(used / 16).min(seen.available))
    }

    /// What is in use when a concurrent cycle applies the ratios; the program cannot have allocated
    /// more than there is.
    pub(super) fn basis(&self, seen: &Seen) -> u64 {
        let used = seen.heap.old.used;
        let rest = seen.heap.committed().saturating_sub(used);
        used.saturating_add(self.drift.min(rest)).max(1)
    }

    /// The size that the ratios made tells what they were applied to; at the most when it could not
    /// be larger.
    pub(super) fn learn_drift(&mut self, done: Resizing, now: u64, max: u64) {
        let basis = now as f64 * (100 - done.percent.min(99)) as f64 / 100.0;
        let drift = (basis as u64).saturating_sub(done.basis);
        self.drift = match self.drift {
            known if now >= max => known.max(drift),
            0 => drift,
            known => known.midpoint(drift),
        };
    }

    /// What a concurrent cycle finds in use is mostly what the program allocates meanwhile and what
    /// died before: nobody can say how much that will be. A collection that stops the program finds
    /// what lives; where much does, only what is urgent is worth that, and only after a cycle was
    /// tried.
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
