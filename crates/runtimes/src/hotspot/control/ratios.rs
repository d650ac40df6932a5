//! G1, Serial and Parallel: the size is set by free ratios in a collection that is asked for.

use super::allowance::Allowance;
use super::watch::Watch;
use super::{Action, Seen, room, slack, tolerance};
use crate::hotspot::levers::{Levers, Sizing};

/// A resizing is repeated at the most this often when it missed.
const TRIES: u32 = 2;
/// How long after a resizing uses is trusted to have settled, nanoseconds.
const SETTLING: u64 = 1_500_000_000;

/// Between two steps of the bias downward, nanoseconds.
const CALM: u64 = 300_000_000;

/// A resizing that was asked for.
#[derive(Clone, Copy, Debug)]
struct Resizing {
    wanted: u64,
    percent: u64,
    tries: u32,
    tight: bool,
    urgent: bool,
    uses: u64,
    size: u64,
    basis: u64,
    pauses: u64,
}

/// The state.
#[derive(Debug)]
pub(super) struct Ratios {
    concurrent: bool,
    resizing: Option<Resizing>,
    bias: i64,
    /// The used bytes at the time the ratios are applied, by those after the last collection.
    basis_factor: f64,
    resized_ns: u64,
    resized_young: u64,
    trimmed_ns: u64,
    lowered_ns: u64,
    /// Resizings in a row that changed nothing, and until when no other one is tried because of that.
    futile: u32,
    quiet_until: u64,
    free_hold: bool,
}

/// What the size should be, and what the ratios can make it.
#[derive(Clone, Copy, Debug)]
struct Aim {
    size: u64,
    reachable: u64,
    percent: u64,
}

impl Ratios {
    pub(super) fn new(concurrent: bool) -> Ratios {
        Ratios {
            concurrent,
            resizing: None,
            bias: 0,
            basis_factor: 1.1,
            resized_ns: 0,
            resized_young: 0,
            trimmed_ns: 0,
            lowered_ns: 0,
            futile: 0,
            quiet_until: 0,
            free_hold: false,
        }
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "bias {} MiB, basis x{:.2}",
            self.bias >> 20,
            self.basis_factor
        )
    }

    pub(super) fn tick(
        &mut self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        if let Some(resizing) = self.resizing.take() {
            return self.check(resizing, seen, levers, watch, allowance);
        }
        if watch.limit_changed_ns == seen.now_ns {
            (self.futile, self.quiet_until) = (0, 0);
            if watch.limit_fell {
                self.bias = self.bias.min(0);
            }
        }
        let mut actions = self.hold();
        if seen.heap.collecting {
            return actions;
        }
        let (over, urgent) = (
            seen.uses > seen.limit.saturating_add(tolerance(seen.limit)),
            seen.uses > seen.limit,
        );
        let urgent = over || (urgent && seen.owed > 0);
        if levers.sizing == Sizing::OldOnly && !urgent {
            return actions;
        }
        let aim = self.aim(seen, levers, watch);
        let now = size(seen, levers);
        let step = slack(seen.limit);
        if urgent {
            if allowance.must(seen.now_ns) {
                actions.extend(self.lower(aim, seen, levers, watch));
            }
            return actions;
        }
        let grow = aim.reachable > now.saturating_add(step);
        let shrink = now > aim.size.max(aim.reachable).saturating_add(step);
        let wanted = (grow || shrink) && seen.now_ns >= self.quiet_until;
        if wanted
            && allowance.may(
                if shrink { levers.shrink_collections } else { 1 },
                watch.changed_lately(seen),
            )
        {
            actions.extend(self.resize(aim, 0, false, false, seen, levers));
        } else if !grow && !shrink {
            self.settle(seen, watch);
        }
        actions
    }

    /// Takes the ratios out of action: collections of the machine's own do not change its size.
    fn hold(&mut self) -> Vec<Action> {
        if self.free_hold {
            return Vec::new();
        }
        self.free_hold = true;
        vec![
            Action::Set("MinHeapFreeRatio", 0),
            Action::Set("MaxHeapFreeRatio", 100),
        ]
    }

    /// Over the limit: a smaller heap, and where that is not it, less native memory and a lower aim.
    fn lower(&mut self, aim: Aim, seen: &Seen, levers: &Levers, watch: &Watch) -> Vec<Action> {
        let now = size(seen, levers);
        let stale = stale(seen, levers, watch);
        if stale > seen.limit / 7 {
            return self.resize(aim, 0, true, true, seen, levers);
        }
        if aim.reachable.saturating_add(now / 64) < now || levers.sizing == Sizing::OldOnly {
            return self.resize(aim, 0, false, true, seen, levers);
        }
        let calm = seen
            .now_ns
            .saturating_sub(self.lowered_ns.max(self.resized_ns))
            > CALM;
        if !calm {
            return Vec::new();
        }
        self.lowered_ns = seen.now_ns;
        let mut actions = vec![Action::Measure];
        if seen.now_ns.saturating_sub(self.trimmed_ns) > 10_000_000_000 {
            self.trimmed_ns = seen.now_ns;
            actions.insert(0, Action::TrimNative);
        }
        let excess = i64::try_from(seen.uses.saturating_sub(seen.limit)).unwrap_or(i64::MAX);
        let least = -i64::try_from(room(seen) / 3).unwrap_or(0);
        self.bias = self.bias.min(0).saturating_sub(excess).max(least);
        actions
    }

    /// Under the limit for long, although it allocates: not all that is committed is resident.
    fn settle(&mut self, seen: &Seen, watch: &Watch) {
        let calm = seen
            .now_ns
            .saturating_sub(self.resized_ns.max(watch.limit_changed_ns))
            > SETTLING
            && watch.young > self.resized_young.saturating_add(1)
            && !watch.rising();
        if !calm {
            return;
        }
        let gap = seen
            .limit
            .saturating_sub(tolerance(seen.limit))
            .saturating_sub(watch.peak());
        if gap > seen.limit / 50 {
            let most = i64::try_from(room(seen)).unwrap_or(i64::MAX);
            self.bias = self
                .bias
                .saturating_add(i64::try_from(gap).unwrap_or(0))
                .min(most);
            self.resized_ns = seen.now_ns;
            self.resized_young = watch.young;
        }
    }

    fn aim(&self, seen: &Seen, levers: &Levers, watch: &Watch) -> Aim {
        let room = room(seen).saturating_add_signed(self.bias);
        let live = watch.live_estimate(seen).max(1);
        let least = live.saturating_mul(levers.least_percent) / 100;
        match levers.sizing {
            Sizing::OldRatios { new_ratio } => {
                let max = seen.heap.young.max.max(1);
                let resident = live.max(watch.old_peak.min(seen.heap.old.capacity));
                let part = seen.heap.young.first_max.max(1) as f64 / max as f64 + 0.03;
                let young = (room.saturating_sub(resident) as f64 / part.clamp(0.3, 1.0)) as u64;
                let young = young.min(max);
                let old = young.saturating_mul(new_ratio).max(least);
                let (percent, reachable) = choose(live, old);
                Aim {
                    size: old / new_ratio,
                    reachable: (reachable / new_ratio).min(max),
                    percent,
                }
            }
            Sizing::OldOnly => {
                let size = room.saturating_sub(seen.heap.young.capacity).max(least);
                let (percent, reachable) = choose(live, size);
                Aim {
                    size,
                    reachable,
                    percent,
                }
            }
            _ => {
                let max = seen.heap.old.max.max(1);
                let basis = self.basis(seen, watch);
                let size = room.max(least).min(max);
                let (percent, reachable) = choose(basis, size);
                Aim {
                    size,
                    reachable: reachable.min(max),
                    percent,
                }
            }
        }
    }

    fn basis(&self, seen: &Seen, watch: &Watch) -> u64 {
        if self.concurrent {
            (seen.heap.old.used as f64 * self.basis_factor) as u64
        } else {
            watch.live_estimate(seen)
        }
        .max(1)
    }

    fn resize(
        &mut self,
        aim: Aim,
        tries: u32,
        tight: bool,
        urgent: bool,
        seen: &Seen,
        levers: &Levers,
    ) -> Vec<Action> {
        let percent = if tight { 5 } else { aim.percent };
        let shrinks = tight || aim.reachable < size(seen, levers);
        let wanted = if tight { 0 } else { aim.size };
        let (pauses, basis) = (seen.heap.collections(), seen.heap.old.used.max(1));
        let (uses, size) = (seen.uses, size(seen, levers));
        self.resizing = Some(Resizing {
            wanted,
            percent,
            tries,
            tight,
            urgent,
            uses,
            size,
            basis,
            pauses,
        });
        self.free_hold = false;
        let mut actions = vec![
            Action::Set("MinHeapFreeRatio", 0),
            Action::Set("MaxHeapFreeRatio", percent),
            Action::Set("MinHeapFreeRatio", percent),
        ];
        let collections = if shrinks {
            levers.shrink_collections
        } else {
            1
        };
        actions.extend((0..collections).map(|_| Action::Collect));
        actions
    }

    /// A resizing is over: was it what was wanted?
    fn check(
        &mut self,
        done: Resizing,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        let now = size(seen, levers);
        self.resized_ns = seen.now_ns;
        self.resized_young = watch.young;
        if done.urgent {
            let less = seen.uses.saturating_add(done.uses / 100) < done.uses;
            let helped =
                less || seen.uses <= seen.limit || now.saturating_add(done.size / 50) < done.size;
            allowance.judged(helped, seen.now_ns);
        }
        if now.abs_diff(done.size) <= done.size / 100 {
            self.futile = (self.futile + 1).min(6);
            self.quiet_until = seen.now_ns.saturating_add(1_000_000_000 << self.futile);
        } else {
            self.futile = 0;
        }
        if watch.pauses == done.pauses {
            // No collection came of it; the ratios wait for the machine's own.
            return self.hold();
        }
        if self.concurrent && !done.tight && levers.sizing == Sizing::HeapRatios {
            let basis = now as f64 * (100 - done.percent.min(99)) as f64 / 100.0;
            let factor = (basis / done.basis as f64).clamp(0.8, 4.0);
            self.basis_factor = (self.basis_factor + factor) / 2.0;
        }
        let aim = self.aim(seen, levers, watch);
        let miss = now.abs_diff(aim.reachable) > slack(seen.limit);
        let over = now > done.wanted;
        if done.tight
            || (miss
                && levers.sizing != Sizing::OldOnly
                && done.tries < TRIES
                && (allowance.may(1, watch.changed_lately(seen)) || (done.urgent && over)))
        {
            return self.resize(aim, done.tries + 1, false, done.urgent, seen, levers);
        }
        self.hold()
    }
}

/// What the lever sets, as it is now.
fn size(seen: &Seen, levers: &Levers) -> u64 {
    match levers.sizing {
        Sizing::OldRatios { .. } => seen.heap.young.capacity,
        Sizing::OldOnly => seen.heap.old.capacity,
        _ => seen.heap.committed(),
    }
}

/// Old-generation memory that is resident although nothing lives there, bytes.
fn stale(seen: &Seen, levers: &Levers, watch: &Watch) -> u64 {
    match levers.sizing {
        Sizing::OldRatios { .. } => watch
            .old_peak
            .min(seen.heap.old.capacity)
            .saturating_sub(watch.live),
        _ => 0,
    }
}

/// The free ratio that makes `basis` used bytes the heap of this size, and the size that it makes: the ratio is
/// a whole percentage, so the size comes in steps. Takes the step below, unless the one above is much nearer and
/// hardly too large.
fn choose(basis: u64, wanted: u64) -> (u64, u64) {
    let wanted = wanted.max(basis).max(1);
    let below = 100_u64
        .saturating_sub((basis as f64 * 100.0 / wanted as f64).ceil() as u64)
        .min(98);
    let made = |percent: u64| (basis as f64 * 100.0 / (100 - percent.min(99)) as f64) as u64;
    let (low, high) = (made(below), made(below + 1));
    if wanted.saturating_sub(low) > wanted / 33 && high < wanted.saturating_add(wanted / 66) {
        (below + 1, high)
    } else {
        (below, low)
    }
}
