//! G1, Serial and Parallel: free ratios set the size during a requested collection.
//!
//! The ratios are the machine's own until the first look. Then they are held out of action, except during a
//! resizing, which takes from one look to the next:
//!
//! ```text
//! Own -> Held <-> Resizing
//! ```
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `state` | the states, and what outlives them |
//! | `refusal` | a machine that does not become smaller |
//! | `old_generation` | memory of the old generation in which nothing lives |
//! | `grow` | when a heap is enlarged |
//! | `plan` | the size to aim at, and the kind of collection that produces it |
//! | `lower` | the steps when a program is over its limit |
//! | `settle` | corrections after a size has settled |

mod grow;
mod lower;
mod old_generation;
mod plan;
mod refusal;
mod settle;
mod state;

use super::aim::{Aim, size};
use super::collection_budget::Allowance;
use super::observation::{Action, Seen, slack};
use super::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use grow::{grows, is_close, is_much_more, pays};
use old_generation::OldGeneration;
use plimsoll_unit::{Bytes, MIB, Nanos};
use state::{Excess, Futile, Held, Learned, Refusal, Resizing, State, Way};

/// How often a resizing that missed its aim is repeated at most.
const TRIES: u32 = 2;
/// A limit rises in steps while others give memory back. It is followed once this much time has
/// passed without a step.
const STEPS: Nanos = Nanos::millis(250);
/// Where an excess ends the program, the heap does not grow for this long after the program was
/// over its limit, because more of the same may come.
const WARY: Nanos = Nanos::seconds(3);

/// The next state, and what to do to come to it.
type Step = (State, Vec<Action>);

/// The resizing of one machine's heap.
#[derive(Debug, Default)]
pub(super) struct Ratios {
    /// Whether the machine's usual collections of the whole heap are concurrent.
    concurrent: bool,
    /// The present state of the ratios.
    state: State,
    /// How the machine follows them.
    learned: Learned,
    /// Garbage in the old generation, as far as known.
    old: OldGeneration,
    /// Resizings that changed nothing.
    futile: Futile,
    /// When the program was over its limit.
    excess: Excess,
}

impl Ratios {
    pub(super) fn new(concurrent: bool) -> Ratios {
        Ratios {
            concurrent,
            ..Ratios::default()
        }
    }

    /// Whether the heap, when it was looked at last, was not smaller than its limit allows by enough to be
    /// enlarged.
    pub(super) fn is_close(&self) -> bool {
        self.state.is_close()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "bias {} MiB, drift {} MiB",
            self.learned.bias / MIB as i64,
            self.learned.drift.0 / MIB
        )
    }

    /// Whether a resizing is under way: the ratios are in action until the next look.
    pub(super) fn resizing(&self) -> bool {
        matches!(self.state, State::Resizing(_))
    }

    pub(super) fn tick(
        &mut self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let (state, more) = match std::mem::take(&mut self.state) {
            State::Own => {
                actions = out_of_action();
                self.hold(Held::default(), seen, levers, watch, allowance)
            }
            State::Held(held) => self.hold(held, seen, levers, watch, allowance),
            State::Resizing(done) => self.check(&done, seen, levers, watch, allowance),
        };
        self.state = state;
        actions.extend(more);
        actions
    }

    /// Looks whether to leave the state in which nothing is resized.
    fn hold(
        &mut self,
        held: Held,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Step {
        if watch.limit.changes_now(seen) {
            self.futile = Futile::default();
            if watch.limit.fell {
                self.learned.bias = self.learned.bias.min(0);
            }
        }
        if held.is_outgrown(seen, levers) {
            // Resizings that did not help before say nothing of a heap that the machine has enlarged since.
            self.futile = Futile::default();
            allowance.renew();
        }
        let stay = (State::Held(held), Vec::new());
        if seen.heap.collecting {
            return stay;
        }
        if seen.is_urgent() {
            let (whole, aim) = self.plan((true, held.in_vain), seen, levers, watch);
            self.excess.pressed_at = seen.now;
            return if allowance.must(seen.now) {
                self.lower(held, (aim, whole), seen, levers, watch)
            } else {
                stay
            };
        }
        if held.has_crept(seen, levers, watch) && allowance.must(seen.now) {
            let (whole, aim) = self.plan((true, held.in_vain), seen, levers, watch);
            if self.helps(&held, aim, seen, levers, watch) {
                let way = Way {
                    urgent: true,
                    whole,
                    ..Way::default()
                };
                return self.resize(held, aim, way, seen, levers);
            }
        }
        match levers.sized_by {
            SizedBy::OldOnly => stay,
            _ => self.follow(held, seen, levers, watch, allowance),
        }
    }

    /// The program is within its limit. Makes the heap as large as that allows, if the change is worth a
    /// collection.
    fn follow(
        &mut self,
        mut held: Held,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &Allowance,
    ) -> Step {
        let (whole, aim) = self.plan((false, held.in_vain), seen, levers, watch);
        let now = size(seen, levers);
        held.close = is_close(&aim, now, seen);
        let grow = !self.is_wary(seen) && grows(&aim, now, seen, watch, allowance);
        // Memory that is committed beyond the aim but not resident harms nobody.
        let harmless = watch.peak.most() <= seen.limit && held.settled(seen, watch);
        let shrink = !harmless
            && !held.refuses(seen, watch)
            && now > aim.size.max(aim.reachable) + slack(seen.limit);
        let settling = watch.limit.changed_within(seen, STEPS);
        let wanted = (grow || shrink) && !self.futile.is_quiet(seen.now);
        let much = is_much_more(&aim, now, seen, watch);
        let collections = if shrink { levers.shrink_collections } else { 1 };
        let may = much
            || allowance.may(collections, watch.limit.changed_lately(seen))
            || (grow && pays(&aim, now, seen, watch, allowance));
        if wanted && !settling && may {
            let way = Way {
                whole,
                ..Way::default()
            };
            return self.resize(held, aim, way, seen, levers);
        }
        let mut actions = Vec::new();
        if !grow && !shrink {
            actions.extend(self.settle(&mut held, aim, seen, levers, watch));
        }
        (State::Held(held), actions)
    }

    /// Whether to hold back growth. Where an excess ends the program, a heap does not grow again
    /// right after memory was short.
    fn is_wary(&self, seen: &Seen) -> bool {
        let pressed_at = self.excess.pressed_at;
        let lately = seen.now - pressed_at < WARY;
        seen.spare > Bytes::ZERO && pressed_at > Nanos::ZERO && lately
    }

    fn resize(&mut self, held: Held, aim: Aim, way: Way, seen: &Seen, levers: &Levers) -> Step {
        let now = size(seen, levers);
        let percent = if way.tight { 5 } else { aim.percent };
        let shrinks = way.tight || aim.reachable.min(aim.size) < now;
        if way.tries == 0 {
            self.learned.learn_creep(&held, now);
        }
        let resizing = Resizing {
            way,
            wanted: if way.tight { Bytes::ZERO } else { aim.size },
            percent,
            uses: seen.uses,
            size: now,
            committed: seen.heap.committed(),
            whole: seen.heap.work[1].invocations,
            basis: seen.heap.old.used.max(Bytes(1)),
            pauses: seen.heap.collections(),
            before: held,
        };
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
        let collect = if way.whole {
            Action::CollectWhole
        } else {
            Action::Collect
        };
        actions.extend((0..collections).map(|_| collect));
        (State::Resizing(resizing), actions)
    }

    /// Judges a finished resizing, and repeats it if it missed.
    fn check(
        &mut self,
        done: &Resizing,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Step {
        let now = size(seen, levers);
        let mut held = Held {
            made: now,
            since: seen.now,
            since_young: watch.collections.young,
            measured: false,
            ..done.before
        };
        let way = done.way;
        if way.urgent {
            let less = seen.uses + done.uses / 100 < done.uses;
            let helped = less || seen.uses <= seen.limit || now + done.size / 50 < done.size;
            allowance.judged(helped, seen.now);
            held.in_vain = seen.uses > seen.limit && !way.whole;
        }
        self.futile.judge(done, now, seen.now);
        if watch.collections.pauses == done.pauses {
            // No collection took place. Do not leave the ratios to the machine's own next one.
            return (State::Held(held), out_of_action());
        }
        held.refusal = Refusal::of(done, self.concurrent, seen, levers, watch);
        if self.concurrent && !way.tight && !way.whole && levers.sized_by == SizedBy::HeapRatios {
            self.learned.learn_drift(done, now, seen.heap.old.max);
        }
        let (whole, aim) = self.plan((way.urgent, held.in_vain), seen, levers, watch);
        let miss = if aim.reachable > now {
            aim.reachable - now > slack(seen.limit) && !self.is_wary(seen)
        } else {
            now - aim.reachable > slack(seen.limit) && !held.refuses(seen, watch)
        };
        let over = now > done.wanted;
        // A generation that was to be made small first gets its size now, unless that is what it has.
        if (way.tight && (miss || held.refusal.is_none()))
            || (miss
                && levers.sized_by != SizedBy::OldOnly
                && way.tries < TRIES
                && (allowance.may(1, watch.limit.changed_lately(seen)) || (way.urgent && over)))
        {
            let way = Way {
                tries: way.tries + 1,
                urgent: way.urgent,
                whole,
                tight: false,
            };
            return self.resize(held, aim, way, seen, levers);
        }
        (State::Held(held), out_of_action())
    }
}

/// Takes the ratios out of action, so that the machine's own collections do not change its size.
fn out_of_action() -> Vec<Action> {
    vec![
        Action::Set("MinHeapFreeRatio", 0),
        Action::Set("MaxHeapFreeRatio", 100),
    ]
}
