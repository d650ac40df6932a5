//! G1, Serial and Parallel: the size is set by free ratios in a collection that is asked for.

mod settle;

use super::aim::{Aim, size, stale};
use super::allowance::Allowance;
use super::watch::Watch;
use super::{Action, Seen, room, slack, tolerance};
use crate::hotspot::levers::{Levers, Sizing};

/// A resizing is repeated at the most this often when it missed.
const TRIES: u32 = 2;
/// Between two steps of the bias downward, nanoseconds.
const CALM: u64 = 300_000_000;

/// A machine returns memory beside the program: so long it may take from the collection that made the heap smaller, nanoseconds.
const RETURNING: u64 = 400_000_000;

/// A limit that rises as others give memory back does so in steps: it is followed when so much time passed without one, nanoseconds.
const STEPS: u64 = 250_000_000;

/// An old generation that is full of garbage again within this time fills with it, and is taken for one that does for so long,
/// nanoseconds.
const REFILLED: u64 = 5_000_000_000;
const FILLS: u64 = 60_000_000_000;

/// Live bytes that are collected within about a fifth of a second.
const SMALL: u64 = 256 << 20;

/// How a resizing is done.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    tries: u32,
    tight: bool,
    urgent: bool,
    /// By a collection that stops the program, although the usual one does not.
    whole: bool,
}

/// A resizing that was asked for.
#[derive(Clone, Copy, Debug)]
struct Resizing {
    way: Way,
    wanted: u64,
    percent: u64,
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
    /// The size that the last resizing made, and by how much the machine makes it larger by itself until the next. Bytes.
    made: u64,
    creep: u64,
    /// When the old generation was last made small because garbage had filled it, and until when it is taken for one that garbage
    /// fills, nanoseconds.
    tight_ns: u64,
    fills_until: u64,
    /// What is in use beside the old generation when a concurrent cycle applies the ratios: the program allocated it while
    /// the cycle marked. Bytes, learned.
    drift: u64,
    resized_ns: u64,
    resized_young: u64,
    /// The native part was measured since the last resizing.
    measured: bool,
    trimmed_ns: u64,
    lowered_ns: u64,
    /// A collection beside the program was asked for while it was over its limit, and left it there.
    in_vain: bool,
    /// Resizings in a row that changed nothing, and until when no other one is tried because of that.
    futile: u32,
    /// The ratio of a resizing that changed nothing: it is not asked for again at this limit.
    futile_percent: Option<u64>,
    quiet_until: u64,
    free_hold: bool,
}

impl Ratios {
    pub(super) fn new(concurrent: bool) -> Ratios {
        Ratios {
            concurrent,
            resizing: None,
            bias: 0,
            made: 0,
            creep: 0,
            tight_ns: 0,
            fills_until: 0,
            drift: 0,
            resized_ns: 0,
            resized_young: 0,
            measured: false,
            trimmed_ns: 0,
            lowered_ns: 0,
            in_vain: false,
            futile: 0,
            futile_percent: None,
            quiet_until: 0,
            free_hold: false,
        }
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "bias {} MiB, drift {} MiB",
            self.bias >> 20,
            self.drift >> 20
        )
    }

    /// The ratios are in action, until the next look.
    pub(super) fn resizing(&self) -> bool {
        self.resizing.is_some()
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
            (self.futile, self.futile_percent, self.quiet_until) = (0, None, 0);
            if watch.limit_fell {
                self.bias = self.bias.min(0);
            }
        }
        let mut actions = self.hold();
        if seen.heap.collecting {
            return actions;
        }
        // Where an excess ends the program, a part of what is kept free is there for the time that a collection takes.
        let kept = seen.spare.min(seen.limit / 16);
        let urgent =
            seen.uses.saturating_add(kept) > seen.limit.saturating_add(tolerance(seen.limit));
        if levers.sizing == Sizing::OldOnly && !urgent {
            return actions;
        }
        let (whole, aim) = self.plan(urgent, seen, levers, watch);
        let now = size(seen, levers);
        let step = slack(seen.limit);
        if urgent {
            if allowance.must(seen.now_ns) {
                actions.extend(self.lower(aim, whole, seen, levers, watch));
            }
            return actions;
        }
        // Where sizes are far apart, a little more or less at the basis is not worth a collection.
        let more = aim.reachable.saturating_sub(now);
        let worth = watch.saved_ns(more, seen);
        let grow =
            more > step.max(aim.step / 4) && worth.is_none_or(|saved| saved > allowance.cost());
        // What is committed beyond its aim, but was seen not to be resident, harms nobody.
        let harmless = watch.peak() <= seen.limit && self.settled(seen, watch);
        let shrink = !harmless && now > aim.size.max(aim.reachable).saturating_add(step);
        let settling = watch.changed_within(seen, STEPS);
        let wanted = (grow || shrink) && seen.now_ns >= self.quiet_until;
        // Room for a quarter more is worth its one collection: it saves others.
        let much = aim.reachable > now.saturating_add(now / 4) && watch.changed_lately(seen);
        let collections = if shrink { levers.shrink_collections } else { 1 };
        if wanted && !settling && (much || allowance.may(collections, watch.changed_lately(seen))) {
            let way = Way {
                whole,
                ..Way::default()
            };
            actions.extend(self.resize(aim, way, seen, levers));
        } else if !grow && !shrink {
            actions.extend(self.settle(aim, seen, levers, watch));
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
    fn lower(
        &mut self,
        aim: Aim,
        whole: bool,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Vec<Action> {
        let now = size(seen, levers);
        let stale = stale(seen, levers, watch);
        let resized_for = seen.now_ns.saturating_sub(self.resized_ns);
        if !smaller(aim, now, seen) && self.resized_ns > 0 && resized_for < RETURNING {
            return Vec::new();
        }
        let fills = seen.now_ns < self.fills_until;
        if stale > seen.limit / 7 && !(fills && seen.heap.committed() <= room(seen)) {
            // Again so soon: what dies there comes as fast, and the machine's own collections deal with it when it is full.
            if seen.now_ns.saturating_sub(self.tight_ns) < REFILLED && self.tight_ns > 0 {
                self.fills_until = seen.now_ns.saturating_add(FILLS);
            }
            self.tight_ns = seen.now_ns;
            let way = Way {
                tight: true,
                urgent: true,
                ..Way::default()
            };
            return self.resize(aim, way, seen, levers);
        }
        let way = Way {
            urgent: true,
            whole,
            ..Way::default()
        };
        let new = self.futile_percent != Some(aim.percent);
        if (smaller(aim, now, seen) && new) || levers.sizing == Sizing::OldOnly {
            return self.resize(aim, way, seen, levers);
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
        if aim.least {
            // It cannot become smaller, whatever the bias; of a larger one that says nothing.
            return actions;
        }
        let excess = i64::try_from(seen.uses.saturating_sub(seen.limit)).unwrap_or(i64::MAX);
        let least = -i64::try_from(room(seen) / 3).unwrap_or(0);
        self.bias = self.bias.saturating_sub(excess).max(least);
        actions
    }

    /// What to make of a limit, and whether by a collection that stops the program.
    fn plan(&self, urgent: bool, seen: &Seen, levers: &Levers, watch: &Watch) -> (bool, Aim) {
        let beside = self.aim(false, seen, levers, watch);
        let whole = self.concurrent && self.must_stop(&beside, urgent, seen, watch);
        match whole {
            true => (true, self.aim(true, seen, levers, watch)),
            false => (false, beside),
        }
    }

    fn aim(&self, whole: bool, seen: &Seen, levers: &Levers, watch: &Watch) -> Aim {
        let room = room(seen).saturating_add_signed(self.bias);
        // A heap that grows by itself is made smaller by so much more, or it would be over its limit again at once.
        let room = room.saturating_sub(self.creep.min(room / 8));
        let found = match (self.concurrent, whole) {
            (true, false) => (watch.live_estimate(seen), self.basis(seen)),
            _ => [watch.compact_estimate(seen).max(1); 2].into(),
        };
        Aim::of(
            room,
            found,
            seen.now_ns < self.fills_until,
            seen,
            levers,
            watch,
        )
    }

    /// The most that it can make use of while it could have `seen.available`, where the steps of the ratios leave much of that
    /// unused: somebody else can have the rest. With little that lives the sizes are far apart (10 MiB: 500 MiB, 1000 MiB).
    pub(super) fn attainable(&self, seen: &Seen, levers: &Levers, watch: &Watch) -> Option<u64> {
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

    /// What is in use when a concurrent cycle applies the ratios; the program cannot have allocated more than there is.
    fn basis(&self, seen: &Seen) -> u64 {
        let used = seen.heap.old.used;
        let rest = seen.heap.committed().saturating_sub(used);
        used.saturating_add(self.drift.min(rest)).max(1)
    }

    fn resize(&mut self, aim: Aim, way: Way, seen: &Seen, levers: &Levers) -> Vec<Action> {
        let percent = if way.tight { 5 } else { aim.percent };
        let shrinks = way.tight || aim.reachable.min(aim.size) < size(seen, levers);
        let wanted = if way.tight { 0 } else { aim.size };
        if way.tries == 0 && self.made > 0 {
            let crept = size(seen, levers).saturating_sub(self.made);
            self.creep = (self.creep / 2).max(crept / 2);
        }
        let (pauses, basis) = (seen.heap.collections(), seen.heap.old.used.max(1));
        let (uses, size) = (seen.uses, size(seen, levers));
        self.resizing = Some(Resizing {
            way,
            wanted,
            percent,
            uses,
            size,
            basis,
            pauses,
        });
        self.free_hold = false;
        let mut actions = vec![
            Action::Set("MinHeapFreeRatio", 0),
            Action::Set("MaxHeapFreeRatio", percent),
        ];
        // Where more lives than was thought, the lower ratio would make a heap larger that is to become smaller.
        if !shrinks {
            actions.push(Action::Set("MinHeapFreeRatio", percent));
        }
        let collections = if shrinks {
            levers.shrink_collections
        } else {
            1
        };
        let collect = match way.whole {
            true => Action::CollectWhole,
            false => Action::Collect,
        };
        actions.extend((0..collections).map(|_| collect));
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
        self.made = now;
        self.measured = false;
        let way = done.way;
        if way.urgent {
            let less = seen.uses.saturating_add(done.uses / 100) < done.uses;
            let helped =
                less || seen.uses <= seen.limit || now.saturating_add(done.size / 50) < done.size;
            allowance.judged(helped, seen.now_ns);
            self.in_vain = seen.uses > seen.limit && !way.whole;
        }
        if now.abs_diff(done.size) <= done.size / 100 {
            self.futile = (self.futile + 1).min(6);
            self.futile_percent = Some(done.percent);
            self.quiet_until = seen.now_ns.saturating_add(1_000_000_000 << self.futile);
        } else {
            (self.futile, self.futile_percent) = (0, None);
        }
        if watch.pauses == done.pauses {
            // No collection came of it; the ratios wait for the machine's own.
            return self.hold();
        }
        if self.concurrent && !way.tight && !way.whole && levers.sizing == Sizing::HeapRatios {
            self.learn_drift(done, now, seen.heap.old.max);
        }
        let (whole, aim) = self.plan(way.urgent, seen, levers, watch);
        let miss = now.abs_diff(aim.reachable) > slack(seen.limit);
        let over = now > done.wanted;
        if way.tight
            || (miss
                && levers.sizing != Sizing::OldOnly
                && way.tries < TRIES
                && (allowance.may(1, watch.changed_lately(seen)) || (way.urgent && over)))
        {
            let way = Way {
                tries: way.tries + 1,
                urgent: way.urgent,
                whole,
                tight: false,
            };
            return self.resize(aim, way, seen, levers);
        }
        self.hold()
    }

    /// The size that the ratios made tells what they were applied to; at the most when it could not be larger.
    fn learn_drift(&mut self, done: Resizing, now: u64, max: u64) {
        let basis = now as f64 * (100 - done.percent.min(99)) as f64 / 100.0;
        let drift = (basis as u64).saturating_sub(done.basis);
        self.drift = match self.drift {
            known if now >= max => known.max(drift),
            0 => drift,
            known => known.midpoint(drift),
        };
    }

    /// What a concurrent cycle finds in use is mostly what the program allocates meanwhile and what died before: nobody can say
    /// how much that will be. A collection that stops the program finds what lives; where much does, only what is urgent is worth
    /// that, and only after a cycle was tried.
    fn must_stop(&self, beside: &Aim, urgent: bool, seen: &Seen, watch: &Watch) -> bool {
        let live = watch.live_estimate(seen);
        if live > SMALL {
            return urgent && self.in_vain;
        }
        let worst = beside.at(seen.heap.committed());
        let overshoots = worst > beside.size.saturating_add(beside.size / 8);
        urgent || overshoots || self.drift > live / 2
    }
}

/// A collection would make the heap smaller by more than its sizes scatter.
fn smaller(aim: Aim, now: u64, seen: &Seen) -> bool {
    aim.reachable.saturating_add(slack(seen.limit) / 2) < now
}
