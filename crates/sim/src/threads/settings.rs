//! What a simulation is of.

use super::heap::Algorithm;
use plimsoll_policy::phases::{PATIENCE, Quanta, Rule};

/// What collections, contentions and switches cost, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Marking or copying a byte.
    pub collected_byte: u64,
    /// A contention for a monitor.
    pub contention: u64,
    /// A switch of threads.
    pub switch: u64,
}

impl Costs {
    /// The constants of the paper's section 5.4.3: 1.8e-8 s, 2.7e-6 s and 2.3e-9 s.
    pub const PAPER: Costs = Costs {
        collected_byte: 18_000,
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
    /// Rounds that a ready thread may be passed over.
    pub patience: u32,
    /// Whether threads have the priorities that the program gave them. Without it all are equal, as they are
    /// to a HotSpot virtual machine on Linux unless it is told otherwise.
    pub priorities: bool,
    /// The collector.
    pub collector: Algorithm,
    /// Size of its heap, bytes.
    pub heap: u64,
    /// What things cost.
    pub costs: Costs,
}

impl Settings {
    /// The paper's settings for a discipline, a collector and a heap size in bytes.
    pub fn new(rule: Rule, collector: Algorithm, heap: u64) -> Settings {
        Settings {
            processors: 1,
            rule,
            quanta: Quanta::PAPER,
            patience: PATIENCE,
            priorities: false,
            collector,
            heap,
            costs: Costs::PAPER,
        }
    }
}
