//! The outcome of a simulation of several programs.

use super::settings::Policy;
use crate::threads;
use serde::Serialize;

/// The outcome of the programs of one memory. Sizes are bytes and times nanoseconds since the beginning of
/// all, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy that sized the heaps.
    #[serde(serialize_with = "named")]
    pub policy: Policy,
    /// The memory of all.
    pub memory: u64,
    /// Bytes of a block of it.
    pub block: u64,
    /// When the last program ended.
    pub ended: u64,
    /// The most that the broker had granted to all together at one time; 0 without one.
    pub most_granted: u64,
    /// Ticks of the broker; a number.
    pub ticks: u64,
    /// The programs, in their order.
    pub programs: Vec<Program>,
    /// Memory that the hogs held: when, and how much.
    pub hogs: Vec<(u64, u64)>,
}

/// The outcome of one program. As in [`Outcome`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its weight and priority; numbers.
    pub weight: u32,
    /// See `weight`.
    pub priority: i32,
    /// When it began, and ended.
    pub began: u64,
    /// See `began`.
    pub ended: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Work of its threads and its collector. Times are since its own beginning, and the execution time is
    /// without its waits for memory.
    pub outcome: threads::Outcome,
    /// Its waits for memory in collections.
    pub inside: Waits,
    /// Its waits for memory outside of them.
    pub outside: Waits,
    /// Its memory, averaged over its life.
    pub share: Share,
    /// The broker's requests to give memory back.
    pub revocations: Revocations,
    /// Its memory over time. The distances of the points double when there would be too many.
    pub points: Vec<Point>,
}

/// A program's waits for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Allocation stalls; a number.
    pub stalls: u64,
    /// Time in them.
    pub stalled: u64,
    /// Blocks read back from swap; a number.
    pub faults: u64,
    /// Time in that.
    pub faulted: u64,
}

/// Averages over the life of a program, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Its memory in use.
    pub uses: u64,
    /// The size of its heap.
    pub heap: u64,
    /// Its limit; 0 without a broker.
    pub limit: u64,
    /// Its part by weight of what is shared out, among the programs of its class; 0 below a higher class.
    pub ideal: u64,
    /// Distance of its memory in use from the ideal.
    pub apart: u64,
}

/// The broker's requests to a program to give memory back. A debt is paid in batches, each with a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Revocations {
    /// Batches; a number.
    pub batches: u64,
    /// Batches that were paid by their deadline; a number.
    pub met: u64,
    /// Bytes that it owed when the batches began, summed up.
    pub owed: u64,
    /// The longest from the beginning of a batch to its payment.
    pub longest: u64,
    /// Bytes that the ladder paged out, and how often it limited the program; a number.
    pub paged_out: u64,
    /// See `paged_out`.
    pub bounds: u64,
}

/// The memory of a program at one time. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When, nanoseconds since the beginning of all.
    pub at: u64,
    /// Its memory in use, and in swap.
    pub uses: u64,
    /// See `uses`.
    pub swapped: u64,
    /// The size of its heap.
    pub heap: u64,
    /// Its limit now, the limit that it could have, and its share; 0 without a broker.
    pub limit: u64,
    /// See `limit`.
    pub available: u64,
    /// See `limit`.
    pub share: u64,
    /// As in [`Share`].
    pub ideal: u64,
    /// Allocation since its beginning: its work.
    pub allocated: u64,
}

impl Program {
    /// Time that it waited for memory, nanoseconds.
    pub fn waited(&self) -> u64 {
        let all = [self.inside, self.outside];
        all.iter().map(|it| it.stalled + it.faulted).sum()
    }

    /// Blocks that it read back; a number.
    pub fn faults(&self) -> u64 {
        self.inside.faults + self.outside.faults
    }
}

fn named<S: serde::Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(policy.name())
}
