//! Round robin: each thread in turn, for a time. The paper compares with it.

use super::{Discipline, Quantum, Used};
use plimsoll_unit::{Bytes, Nanos};

/// Threads in the order in which they became ready, each for a time quantum.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin {
    time: Nanos,
}

impl RoundRobin {
    /// With a time quantum. 0 counts as 1 ns.
    pub fn new(time: Nanos) -> RoundRobin {
        RoundRobin {
            time: time.max(Nanos(1)),
        }
    }
}

impl Discipline for RoundRobin {
    fn quantum(&self) -> Quantum {
        Quantum {
            time: self.time,
            bytes: Bytes::MAX,
        }
    }

    fn rank(&self, _before: u64, _used: Used) -> u64 {
        0
    }
}
