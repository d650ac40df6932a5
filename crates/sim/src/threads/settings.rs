//! The settings of a simulation.

use super::heap::{Algorithm, Collection, NewRatio};
use plimsoll_policy::phases::{PATIENCE, Quanta, Rule, Ties};
use plimsoll_unit::Bytes;

/// Costs of collections, contentions and switches, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Costs {
    /// Copying a byte of a live object.
    pub copied_byte: u64,
    /// Marking a byte of a live object.
    pub marked_byte: u64,
    /// Moving a byte of an object that was marked.
    pub compacted_byte: u64,
    /// Sweeping a byte of an object, dead or alive.
    pub swept_byte: u64,
    /// A contention for a monitor.
    pub contention: u64,
    /// A switch of threads.
    pub switch: u64,
}

impl Costs {
    /// The pause of a collection, picoseconds.
    pub(super) fn pause(&self, collection: &Collection) -> u128 {
        let copied = collection.work - collection.marked;
        [
            (copied, self.copied_byte),
            (collection.marked, self.marked_byte),
            (collection.compacted, self.compacted_byte),
            (collection.swept, self.swept_byte),
        ]
        .map(|(bytes, cost)| u128::from(bytes) * u128::from(cost))
        .iter()
        .sum()
    }

    /// The constants of the paper's section 5.4.3: 1.8e-8 s, 2.7e-6 s and 2.3e-9 s. There, a byte costs the
    /// same whether it is marked or copied, and moving and sweeping cost nothing more.
    pub const PAPER: Costs = Costs {
        copied_byte: 18_000,
        marked_byte: 18_000,
        compacted_byte: 0,
        swept_byte: 0,
        contention: 2_700_000,
        switch: 2_300,
    };
}

/// All that a simulation needs to know beside the program.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Processors; 0 counts as 1, which is what the paper has.
    pub processors: usize,
    /// The discipline of the ready queue.
    pub rule: Rule,
    /// Its quanta.
    pub quanta: Quanta,
    /// Which of equal rates goes first under LARF.
    pub ties: Ties,
    /// Rounds that a ready thread may be passed over.
    pub patience: u32,
    /// Whether threads have the priorities that the program gave them. Without it all are equal, as they are
    /// to a HotSpot virtual machine on Linux unless it is told otherwise.
    pub priorities: bool,
    /// The collector.
    pub collector: Algorithm,
    /// Size of its heap.
    pub heap: Bytes,
    /// How the heap is divided, if it has generations.
    pub new_ratio: NewRatio,
    /// Costs of collections, contentions and switches.
    pub costs: Costs,
}

impl Settings {
    /// The paper's settings for a discipline, a collector and a heap size, and ours where it says nothing.
    pub fn new(rule: Rule, collector: Algorithm, heap: Bytes) -> Settings {
        Settings {
            processors: 1,
            rule,
            quanta: Quanta::PAPER,
            ties: Ties::Newest,
            patience: PATIENCE,
            priorities: false,
            collector,
            heap,
            new_ratio: NewRatio::PAPER,
            costs: Costs::PAPER,
        }
    }
}
