//! The controller: maps the limit of a process to the size of its heap. Pure, without clock or I/O.
//!
//! | word | meaning |
//! |---|---|
//! | *room* | bytes that the policy lets the resident heap take: at most limit - native part - a margin |
//! | *size* | what a lever sets: committed heap (G1), young generation (Serial, Parallel), soft maximum |
//! | *bias* | added to the room because committed and resident memory differ; may be negative |
//! | *over*, *under* | the use is above the limit, or stays below it although the program allocates |
//! | *basis* | the bytes in use when a collection applies the free ratios to them |
//!
//! [`Control::tick`] looks at one moment and returns what to do. Free ratios act only during a
//! resizing. Between two resizings they are 0 and 100, so that the machine's own collections do not
//! change its size.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `observation` | what is seen and done |
//! | `watch` | what the counters of a machine teach over time; its parts are the next eight |
//! | `collections` | the collections so far |
//! | `live` | the live bytes |
//! | `touched` | the part of a heap that can have been touched |
//! | `activity` | whether a program works |
//! | `allocation_rate` | how fast it allocates |
//! | `promotion` | how fast an old generation fills |
//! | `cost` | the part of a program's time that goes into collections |
//! | `limit_changes` | changes of the limit, and how long the machine takes to follow them |
//! | `peak_use` | the highest use lately |
//! | `heap_size` | how large the resident heap may be |
//! | `aim` | the size that the free ratios should produce |
//! | `ratios` | G1, Serial and Parallel |
//! | `soft_max` | ZGC and Shenandoah |
//! | `emptying` | heaps of one size, or at their least, which the agent empties |
//! | `grants` | collections that the agent asks for by itself |
//! | `idle` | programs that have not worked for a minute |
//! | `collection_budget` | how often collections may be asked for |

mod activity;
mod aim;
mod allocation_rate;
mod collection_budget;
mod collections;
mod cost;
mod emptying;
mod grants;
mod heap_size;
mod idle;
mod limit_changes;
mod live;
mod observation;
mod peak_use;
mod promotion;
mod ratios;
mod soft_max;
mod touched;
mod watch;

use super::sizing_flags::{Levers, SizedBy, Trigger};
use super::snapshot::Snapshot;
use collection_budget::Allowance;
use emptying::Emptying;
use grants::Grants;
use idle::Idle;
pub(super) use observation::RETURNING;
pub use observation::{Action, AtBound, Seen};
use plimsoll_unit::{Bytes, Nanos};
pub use watch::Facts;
use watch::Watch;

/// The least pause between two trims of native memory.
const TRIMMED: Nanos = Nanos::seconds(10);

/// A heap is nearly as full as it may be when less than one part in this many of the limit is left.
const NEAR: u64 = 8;

/// The controller of one machine.
#[derive(Debug)]
pub struct Control {
    /// How this machine's heap can be sized.
    levers: Levers,
    /// Watches the counters.
    watch: Watch,
    /// How much time requested collections may take.
    allowance: Allowance,
    /// For collectors that are steered by free ratios.
    ratios: ratios::Ratios,
    /// For collectors that are steered by a soft maximum.
    soft_max: soft_max::SoftMax,
    /// For heaps of one size, or at their least, that an agent empties.
    emptying: Emptying,
    /// Collections that the agent asks for by itself.
    grants: Grants,
    /// For programs that rest for long.
    idle: Idle,
    /// The program rested at the last look. There is at most one collection for each rest.
    looked: bool,
    /// The number of young collections when a collection was last asked for in a rest.
    looked_at: u64,
    /// When native memory was last trimmed because an excess would end the program.
    trimmed_at: Option<Nanos>,
}

impl Control {
    /// `share` is the part of the wall-clock time that requested collections may take while the program is
    /// within its limit; of a heap of one size, while nothing is owed.
    pub fn new(levers: Levers, share: f64) -> Control {
        Control {
            watch: Watch::default(),
            allowance: Allowance::new(share),
            ratios: ratios::Ratios::new(levers.concurrent),
            soft_max: soft_max::SoftMax::default(),
            emptying: Emptying::default(),
            grants: Grants::default(),
            idle: Idle::default(),
            looked: false,
            looked_at: 0,
            trimmed_at: None,
            levers,
        }
    }

    /// Looks at one moment and returns what to do, in order.
    pub fn tick(&mut self, seen: &Seen) -> Vec<Action> {
        self.watch.look(seen, &self.levers);
        self.allowance.pass(seen.now);
        self.grants.look(seen, &mut self.allowance);
        if self.watch.limit.changes_now(seen) {
            self.allowance.renew();
        }
        // No collection shrinks a heap of fixed size that no agent empties, however long the program rests.
        let fixed = self.levers.sized_by == SizedBy::Fixed && !seen.empties;
        if seen.limit == Bytes::ZERO || seen.heap.committed() == Bytes::ZERO {
            return Vec::new();
        }
        if !fixed && self.must_look() {
            return vec![Action::Collect];
        }
        self.idle.look(
            seen.now,
            self.watch.activity.rests_since,
            self.watch.collections.young,
        );
        let seen = &Seen {
            limit: self.limit(seen),
            ..*seen
        };
        let mut actions = match self.levers.sized_by {
            SizedBy::HeapRatios | SizedBy::OldRatios { .. } | SizedBy::OldOnly => {
                let actions =
                    self.ratios
                        .tick(seen, &self.levers, &self.watch, &mut self.allowance);
                if actions.is_empty() && self.is_least(seen) {
                    self.empty(seen)
                } else {
                    actions
                }
            }
            SizedBy::SoftMax => {
                self.soft_max
                    .tick(seen, &self.levers, &self.watch, &mut self.allowance)
            }
            SizedBy::Fixed => self.empty(seen),
        };
        // A collection frees more, so it comes first.
        let collects = [Action::Collect, Action::CollectWhole];
        if !actions.iter().any(|action| collects.contains(action)) && self.must_trim(seen) {
            let measures = actions.iter().position(|&it| it == Action::Measure);
            actions.insert(measures.unwrap_or(actions.len()), Action::TrimNative);
        }
        actions
    }

    /// Whether the heap has about the least size that it may have (`Levers::least_size`), and the limit is
    /// below that. Then no resizing helps, and an agent can only empty it.
    fn is_least(&self, seen: &Seen) -> bool {
        let least = self.levers.least_size;
        let most = least + least / 16;
        !self.ratios.resizing() && seen.heap.committed() <= most && seen.limit < least
    }

    /// Whether an agent that counts what is allocated would help now: the heap is to be emptied, and nearly
    /// as full as it may be.
    pub fn nears_emptying(&self, seen: &Seen) -> bool {
        let emptied = self.levers.sized_by == SizedBy::Fixed || self.is_least(seen);
        let near = seen.uses + seen.limit / NEAR > seen.limit;
        seen.empties && seen.limit > Bytes::ZERO && emptied && near
    }

    /// How many collections the agent may have asked for by itself, all in all.
    pub fn granted(&self) -> u64 {
        self.grants.granted()
    }

    fn empty(&mut self, seen: &Seen) -> Vec<Action> {
        let concurrent = self.levers.concurrent;
        self.emptying.tick(
            seen,
            concurrent,
            &self.watch,
            (&mut self.allowance, &mut self.grants),
        )
    }

    /// The bytes that the program may use: its limit, or less if it is idle.
    fn limit(&self, seen: &Seen) -> Bytes {
        self.idle
            .limit(seen, self.watch.live.bytes, self.watch.activity.rests_since)
    }

    /// The bytes that an agent leaves to the process at the end of a collection; 0 without a limit. Heaps
    /// that can be sized are sized so that `spare` stays free; a heap of one size is emptied so.
    pub fn leaves(&self, seen: &Seen) -> Bytes {
        let spare = match self.levers.sized_by {
            SizedBy::Fixed => seen.spare,
            _ => Bytes::ZERO,
        };
        self.limit(seen).min(seen.limit - spare)
    }

    /// Whether to have malloc return what is free, because an excess is near and would end the program,
    /// and the heap gives nothing back in time. The memory that the machine's compilers have freed is a
    /// good part of a small limit.
    fn must_trim(&mut self, seen: &Seen) -> bool {
        let near = seen.ample > Bytes::ZERO && seen.uses + seen.kept > seen.limit;
        let lately = |then: Nanos| seen.now - then < TRIMMED;
        let must = near && !self.trimmed_at.is_some_and(lately);
        if must {
            self.trimmed_at = Some(seen.now);
        }
        must
    }

    /// Whether to collect because the program has begun to rest. Only a collection shows what the
    /// program has dropped and thus that it needs less. It costs a resting program no work. It
    /// comes once per rest, and only if there were young collections since the last one.
    fn must_look(&mut self) -> bool {
        let rests = self.watch.activity.rests();
        let looked = std::mem::replace(&mut self.looked, rests);
        let idle = !self.ratios.resizing() && self.watch.collections.young != self.looked_at;
        if !rests || looked || !idle || !self.allowance.may(1, false) {
            return false;
        }
        self.looked_at = self.watch.collections.young;
        true
    }

    /// Whether the program has not worked for about a second.
    pub fn rests(&self) -> bool {
        self.watch.activity.rests()
    }

    /// The live bytes, as far as they are known. Memory that fills an old generation between two
    /// collections of it is not counted, as far as that can be told.
    pub fn live(&self) -> Bytes {
        self.watch.live.bytes
    }

    /// The most of the heap that can have been touched, bytes, as far as the counters showed it since the
    /// steering began.
    pub fn touched(&self, heap: &Snapshot) -> Bytes {
        self.watch.touched.most(heap, &self.levers)
    }

    /// Whether a heap that is sized by free ratios was as large as its limit allows when it was looked at
    /// last, or smaller by too little to be worth a collection.
    pub fn is_close(&self) -> bool {
        self.ratios.is_close()
    }

    /// How a collection is asked for.
    pub fn trigger(&self) -> Trigger {
        self.levers.trigger
    }

    /// Notes a requested collection: how long it took, the live bytes after it, and whether it was
    /// of the `whole` heap with the program stopped.
    pub fn collected(&mut self, took: Nanos, live: Bytes, whole: bool) {
        // A concurrent collection takes a part of the processors; one that stops the program takes
        // all of them.
        self.allowance.spend(if self.levers.concurrent && !whole {
            took / 2
        } else {
            took
        });
        self.watch.collected(took, live);
    }

    /// The facts for the broker about the machine.
    pub fn facts(&self, seen: &Seen) -> Facts {
        let mut facts = self.watch.facts(seen, &self.levers);
        if let SizedBy::HeapRatios | SizedBy::OldRatios { .. } = self.levers.sized_by {
            let attainable = self.ratios.attainable(seen, &self.levers, &self.watch);
            facts.demand = facts.demand.min(attainable.unwrap_or(Bytes::MAX));
        }
        facts
    }

    /// One line about the state, for `-v`.
    pub fn describe(&self) -> String {
        match self.levers.sized_by {
            SizedBy::SoftMax => self.soft_max.describe(),
            _ => self.ratios.describe(),
        }
    }
}

#[cfg(test)]
mod tests;
