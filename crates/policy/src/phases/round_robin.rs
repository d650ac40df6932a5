//! Round robin: each thread in turn, for a time. The paper compares with it.

use super::{Discipline, Quantum, Used};

/// Threads in the order in which they became ready, each for a time quantum.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin {
    time: u64,
}

impl RoundRobin {
    /// With a time quantum, nanoseconds. 0 counts as 1.
    pub fn new(time: u64) -> RoundRobin {
        RoundRobin { time: time.max(1) }
    }
}

impl Discipline for RoundRobin {
    fn quantum(&self) -> Quantum {
        Quantum {
            time: self.time,
            bytes: u64::MAX,
        }
    }

    fn rank(&self, _before: u64, _used: Used) -> u64 {
        0
    }
}
