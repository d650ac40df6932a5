//! Lower allocation rate first (section 3.1): a thread that computes goes before one that allocates.

use super::{Discipline, Quantum, Ties, Used};
use plimsoll_unit::{Bytes, Nanos};

/// The thread with the lowest allocation rate first, each for a time quantum.
///
/// The rate is in bytes per quantum of execution. After a run of at least a quantum it is that of the run. A
/// shorter run, because the thread blocked, counts for its part of a quantum and leaves the rest to the rate
/// before: so an object or two between two locks do not make a thread look greedy.
///
/// The paper says nothing about equal rates: either thread may go first. With [`Ties::Newest`] the thread
/// that ran last goes on. With [`Ties::Oldest`] threads that all allocate at one rate take turns, and LARF is
/// the round robin of Figure 1.
#[derive(Clone, Copy, Debug)]
pub struct Larf {
    time: Nanos,
    ties: Ties,
}

impl Larf {
    /// With a time quantum. 0 counts as 1 ns.
    pub fn new(time: Nanos, ties: Ties) -> Larf {
        Larf {
            time: time.max(Nanos(1)),
            ties,
        }
    }
}

impl Discipline for Larf {
    fn quantum(&self) -> Quantum {
        Quantum {
            time: self.time,
            bytes: Bytes::MAX,
        }
    }

    fn rank(&self, before: u64, used: Used) -> u64 {
        let scaled = |bytes: u64, part: u64, whole: u64| {
            let scaled = u128::from(bytes) * u128::from(part) / u128::from(whole);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        match self.time.0.checked_sub(used.time.0) {
            Some(rest) => scaled(before, rest, self.time.0).saturating_add(used.bytes.0),
            None => scaled(used.bytes.0, self.time.0, used.time.0),
        }
    }

    fn ties(&self) -> Ties {
        self.ties
    }
}
