//! The controller: maps the limit of a process to the size of its heap. Pure: no clock, no I/O.
//!
//! | word | meaning |
//! |---|---|
//! | *room* | what the resident heap may take by its policy: at the most limit - native part - a margin |
//! | *size* | what a lever sets: committed heap (G1), young generation (Serial, Parallel), soft maximum |
//! | *bias* | added to the room because not all that is committed is resident (and the other way round) |
//! | *over*, *under* | uses is above the limit, or stays below it although the program allocates |
//! | *basis* | the used bytes to which the free ratios are applied, at the time they are |
//!
//! One [`Control::tick`] looks at one moment and says what to do. Free ratios act only while a
//! resizing is under way: between two of them they are 0 and 100, so that collections of the
//! machine's own leave its size alone.

mod activity;
mod aim;
mod allowance;
mod cost;
mod heap_size;
mod ratios;
mod soft_max;
mod watch;

use super::levers::{Levers, SizedBy, Trigger};
use super::snapshot::Snapshot;
use allowance::Allowance;
pub use watch::Facts;
use watch::Watch;

/// One moment of the machine and of its limit. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub now_ns: u64,
    /// What the process may use now.
    pub limit: u64,
    /// What it could have if it asked; 0 when not known.
    pub available: u64,
    /// What it must give back, 0 when nothing.
    pub owed: u64,
    /// What the process uses.
    pub uses: u64,
    /// Its native part, as measured last.
    pub native: u64,
    /// What is kept free for native memory that grows at once, bytes: 0 where an excess can be paged out.
    pub spare: u64,
    /// Of that, what is left for the time until a collection is on its way, bytes.
    pub kept: u64,
    /// Its processor time so far, without what it was asked for, nanoseconds; 0 when it cannot be read.
    pub processor_ns: u64,
    /// The time that what it was asked for took so far, nanoseconds.
    pub asked_ns: u64,
    /// Its major faults so far.
    pub major_faults: u64,
    /// Its heap.
    pub heap: Snapshot,
}

/// What to do to the machine, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets a manageable flag, in plain units.
    Set(&'static str, u64),
    /// Asks for a collection and waits for its end.
    Collect,
    /// Asks for one of the whole heap that stops the program, where the usual one does not.
    CollectWhole,
    /// Has malloc return what it does not need.
    TrimNative,
    /// Measures the native part anew.
    Measure,
}

/// G1 returns memory beside the program: so long it may take from the collection that made the heap
/// smaller, nanoseconds.
pub(super) const RETURNING: u64 = 400_000_000;

/// How far above its limit uses may be before something is done about it.
fn tolerance(limit: u64) -> u64 {
    (limit / 66).max(3 << 20)
}

/// How far a size may be from its aim before it is worth a collection.
fn slack(limit: u64) -> u64 {
    (limit / 40).max(10 << 20)
}

/// The controller of one machine.
#[derive(Debug)]
pub struct Control {
    levers: Levers,
    watch: Watch,
    allowance: Allowance,
    ratios: ratios::Ratios,
    soft_max: soft_max::SoftMax,
    /// It rests, and was collected for it if that was worth it; young collections until then.
    looked: bool,
    looked_at: u64,
}

impl Control {
    /// `share` is the part of the wall-clock time that collections asked for may take while nothing is owed.
    pub fn new(levers: Levers, share: f64) -> Control {
        Control {
            watch: Watch::default(),
            allowance: Allowance::new(share),
            ratios: ratios::Ratios::new(levers.concurrent),
            soft_max: soft_max::SoftMax::default(),
            looked: false,
            looked_at: 0,
            levers,
        }
    }

    /// Looks at one moment and says what to do.
    pub fn tick(&mut self, seen: &Seen) -> Vec<Action> {
        self.watch.look(seen, &self.levers);
        self.allowance.pass(seen.now_ns);
        if self.watch.limit_changed_ns == seen.now_ns {
            self.allowance.renew();
        }
        // No collection makes a heap of one size smaller, however long its program rests.
        let fixed = self.levers.sized_by == SizedBy::Fixed;
        if fixed || seen.limit == 0 || seen.heap.committed() == 0 {
            return Vec::new();
        }
        if self.must_look() {
            return vec![Action::Collect];
        }
        match self.levers.sized_by {
            SizedBy::HeapRatios | SizedBy::OldRatios { .. } | SizedBy::OldOnly => {
                self.ratios
                    .tick(seen, &self.levers, &self.watch, &mut self.allowance)
            }
            SizedBy::SoftMax => {
                self.soft_max
                    .tick(seen, &self.levers, &self.watch, &mut self.allowance)
            }
            SizedBy::Fixed => Vec::new(),
        }
    }

    /// When a program begins to rest, one collection finds out what it has dropped: without it
    /// nobody could know that the program needs less. It costs the program nothing that it does,
    /// and comes once in a rest, after young collections only.
    fn must_look(&mut self) -> bool {
        let rests = self.watch.rests();
        let looked = std::mem::replace(&mut self.looked, rests);
        let idle = !self.ratios.resizing() && self.watch.young != self.looked_at;
        if !rests || looked || !idle || !self.allowance.may(1, false) {
            return false;
        }
        self.looked_at = self.watch.young;
        true
    }

    /// The program has not worked for a second.
    pub fn rests(&self) -> bool {
        self.watch.rests()
    }

    /// How to ask for a collection.
    pub fn trigger(&self) -> Trigger {
        self.levers.trigger
    }

    /// A collection that was asked for took this long.
    pub fn collected(&mut self, took_ns: u64, live: u64, whole: bool) {
        // A collection beside the program takes a part of the processors, one that stops it takes all.
        self.allowance.spend(if self.levers.concurrent && !whole {
            took_ns / 2
        } else {
            took_ns
        });
        self.watch.collected(took_ns, live);
    }

    /// What is known of the machine, for the broker.
    pub fn facts(&self, seen: &Seen) -> Facts {
        let mut facts = self.watch.facts(seen, &self.levers);
        if let SizedBy::HeapRatios | SizedBy::OldRatios { .. } = self.levers.sized_by {
            let attainable = self.ratios.attainable(seen, &self.levers, &self.watch);
            facts.demand = facts.demand.min(attainable.unwrap_or(u64::MAX));
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
