//! G1, Serial and Parallel: free ratios set the size during a requested collection.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `plan` | the size to aim at, and the kind of collection that produces it |
//! | `grow` | when a heap is enlarged |
//! | `lower` | what is done when a program is over its limit |
//! | `settle` | corrections after a size has settled |
//! | `old_generation` | memory of the old generation in which nothing lives |
//! | `refusal` | a machine that does not become smaller |

mod grow;
mod lower;
mod old_generation;
mod plan;
mod refusal;
mod settle;

use super::aim::{Aim, size};
use super::allowance::Allowance;
use super::watch::Watch;
use super::{Action, Seen, slack, tolerance};
use crate::hotspot::levers::{Levers, SizedBy};
use grow::{is_close, is_much_more, pays};
use old_generation::OldGeneration;
use refusal::Refusal;

/// How often a resizing that missed its aim is repeated at most.
const TRIES: u32 = 2;
/// A limit rises in steps while others give memory back. It is followed once this much time has
/// passed without a step, nanoseconds.
const STEPS: u64 = 250_000_000;

/// How a resizing is done.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Repetitions so far.
    tries: u32,
    /// Make the old generation as small as it gets, to return garbage.
    tight: bool,
    /// The program is over its limit.
    urgent: bool,
    /// Use a collection that stops the program, although the usual one is concurrent.
    whole: bool,
}

/// A resizing that is under way, with what was seen when it was asked for. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
struct Resizing {
    /// How it is done.
    way: Way,
    /// The size that is aimed at; 0 for the least.
    wanted: u64,
    /// The ratio that was set, percent.
    percent: u64,
    /// The program's memory before.
    uses: u64,
    /// The size before.
    size: u64,
    /// The committed heap before.
    committed: u64,
    /// Collections of the whole heap before.
    whole: u64,
    /// The use of the old generation before.
    basis: u64,
    /// Pauses before.
    pauses: u64,
}

/// The state of the resizing. Sizes in bytes, times in nanoseconds.
#[derive(Debug)]
pub(super) struct Ratios {
    /// Whether the machine's usual collections of the whole heap are concurrent.
    concurrent: bool,
    /// The resizing that was asked for at the last look.
    resizing: Option<Resizing>,
    /// By how much the aim exceeds the room, because not all that is committed is resident; negative because
    /// of memory that was not measured. Learned.
    bias: i64,
    /// The size that the last resizing produced.
    made: u64,
    /// By how much the machine itself enlarges the heap between two resizings; learned.
    creep: u64,
    /// What is known of the old generation.
    old: OldGeneration,
    /// The machine does not become smaller than it is.
    refusal: Option<Refusal>,
    /// How much more than the old generation's use is in use when a concurrent cycle applies the
    /// ratios, because the program allocates while the cycle marks; learned.
    drift: u64,
    /// When the last resizing ended or the bias was raised, and the number of young collections then.
    resized_ns: u64,
    resized_young: u64,
    /// The native part was measured since the last resizing.
    measured: bool,
    /// When the machine was last asked to return native memory.
    trimmed_ns: u64,
    /// When the bias was last lowered.
    lowered_ns: u64,
    /// When the program was last over its limit; 0: never.
    pressed_ns: u64,
    /// The last urgent collection was concurrent and left the program over its limit.
    in_vain: bool,
    /// Resizings in a row that changed nothing. `quiet_until` follows from it.
    futile: u32,
    /// The ratio (percent) of a resizing that changed nothing. It is not tried again at this limit.
    futile_percent: Option<u64>,
    /// No resizing that is not urgent before this time.
    quiet_until: u64,
    /// The ratios are 0 and 100, out of action.
    free_hold: bool,
    /// The heap is as large as its limit allows, or smaller by too little to be worth a collection.
    close: bool,
}

impl Ratios {
    pub(super) fn new(concurrent: bool) -> Ratios {
        Ratios {
            concurrent,
            resizing: None,
            bias: 0,
            made: 0,
            creep: 0,
            old: OldGeneration::default(),
            refusal: None,
            drift: 0,
            resized_ns: 0,
            resized_young: 0,
            measured: false,
            trimmed_ns: 0,
            lowered_ns: 0,
            pressed_ns: 0,
            in_vain: false,
            futile: 0,
            futile_percent: None,
            quiet_until: 0,
            free_hold: false,
            close: false,
        }
    }

    /// Whether the heap, when it was looked at last, was not smaller than its limit allows by enough to be
    /// enlarged.
    pub(super) fn is_close(&self) -> bool {
        self.close
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "bias {} MiB, drift {} MiB",
            self.bias >> 20,
            self.drift >> 20
        )
    }

    /// Whether a resizing is under way: the ratios are in action until the next look.
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
        if self.is_outgrown(seen, levers) {
            // What did not help before says nothing of a heap that the machine has enlarged since.
            (self.futile, self.futile_percent, self.quiet_until) = (0, None, 0);
            allowance.renew();
        }
        let mut actions = self.hold();
        if seen.heap.collecting {
            return actions;
        }
        let urgent =
            seen.uses.saturating_add(seen.kept) > seen.limit.saturating_add(tolerance(seen.limit));
        if levers.sized_by == SizedBy::OldOnly && !urgent {
            return actions;
        }
        let (whole, aim) = self.plan(urgent, seen, levers, watch);
        let now = size(seen, levers);
        if urgent {
            self.pressed_ns = seen.now_ns;
            if allowance.must(seen.now_ns) {
                actions.extend(self.lower(aim, whole, seen, levers, watch));
            }
            return actions;
        }
        self.close = is_close(&aim, now, seen);
        let grow = self.grows(&aim, now, seen, watch, allowance);
        // Memory that is committed beyond the aim but not resident harms nobody.
        let harmless = watch.peak() <= seen.limit && self.settled(seen, watch);
        let shrink = !harmless
            && !self.refuses(seen, watch)
            && now
                > aim
                    .size
                    .max(aim.reachable)
                    .saturating_add(slack(seen.limit));
        let settling = watch.changed_within(seen, STEPS);
        let wanted = (grow || shrink) && seen.now_ns >= self.quiet_until;
        let much = is_much_more(&aim, now, seen, watch);
        let collections = if shrink { levers.shrink_collections } else { 1 };
        let may = much
            || allowance.may(collections, watch.changed_lately(seen))
            || (grow && pays(&aim, now, seen, watch, allowance));
        if wanted && !settling && may {
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

    /// Takes the ratios out of action, so that the machine's own collections do not change its
    /// size.
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

    fn resize(&mut self, aim: Aim, way: Way, seen: &Seen, levers: &Levers) -> Vec<Action> {
        let percent = if way.tight { 5 } else { aim.percent };
        let shrinks = way.tight || aim.reachable.min(aim.size) < size(seen, levers);
        let wanted = if way.tight { 0 } else { aim.size };
        if way.tries == 0 {
            self.learn_creep(seen, levers);
        }
        let (pauses, basis) = (seen.heap.collections(), seen.heap.old.used.max(1));
        let (uses, size) = (seen.uses, size(seen, levers));
        let committed = seen.heap.committed();
        let all = seen.heap.work[1].invocations;
        self.resizing = Some(Resizing {
            way,
            wanted,
            percent,
            uses,
            size,
            committed,
            whole: all,
            basis,
            pauses,
        });
        self.free_hold = false;
        let mut actions = vec![
            Action::Set("MinHeapFreeRatio", 0),
            Action::Set("MaxHeapFreeRatio", percent),
        ];
        // When shrinking, leave the lower ratio at 0: with more live bytes than expected it would
        // enlarge the heap.
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

    /// Judges a finished resizing, and repeats it if it missed.
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
            // No collection took place. Do not leave the ratios to the machine's own next one.
            return self.hold();
        }
        self.refusal = Refusal::of(&done, self.concurrent, seen, levers, watch);
        if self.concurrent && !way.tight && !way.whole && levers.sized_by == SizedBy::HeapRatios {
            self.learn_drift(done, now, seen.heap.old.max);
        }
        let (whole, aim) = self.plan(way.urgent, seen, levers, watch);
        let miss = match aim.reachable > now {
            true => aim.reachable - now > slack(seen.limit) && !self.is_wary(seen),
            false => now - aim.reachable > slack(seen.limit) && !self.refuses(seen, watch),
        };
        let over = now > done.wanted;
        // A generation that was to be made small first gets its size now, unless that is what it has.
        if (way.tight && (miss || self.refusal.is_none()))
            || (miss
                && levers.sized_by != SizedBy::OldOnly
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
}
