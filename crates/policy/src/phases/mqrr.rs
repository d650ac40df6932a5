//! Memory-quantum round robin (section 3.2): each thread in turn, until it has allocated its
//! quantum.

use super::{Discipline, Quantum, Used};
use plimsoll_unit::{Bytes, Nanos};

/// Threads in the order in which they became ready, each until it has allocated its memory quantum.
///
/// A thread that allocates too little to get there, because it computes or spins, is stopped by a bound on
/// its time: the paper's live-lock (section 6.1) cannot happen. The bound is far above the time that an
/// allocation phase takes, so it stops nobody else.
#[derive(Clone, Copy, Debug)]
pub struct Mqrr {
    bytes: Bytes,
    most: Nanos,
}

impl Mqrr {
    /// With a memory quantum, and a bound on the time of a run. 0 counts as 1 byte and 1 ns.
    pub fn new(bytes: Bytes, most: Nanos) -> Mqrr {
        Mqrr {
            bytes: bytes.max(Bytes(1)),
            most: most.max(Nanos(1)),
        }
    }
}

impl Discipline for Mqrr {
    fn quantum(&self) -> Quantum {
        Quantum {
            time: self.most,
            bytes: self.bytes,
        }
    }

    fn rank(&self, _before: u64, _used: Used) -> u64 {
        0
    }
}
