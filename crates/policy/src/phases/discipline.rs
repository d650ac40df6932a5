//! A discipline decides how long a thread runs, and its place among the ready ones.

use plimsoll_unit::{Bytes, Nanos};

/// A thread's use of its processor in its last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Time on the processor.
    pub time: Nanos,
    /// Memory that it allocated.
    pub bytes: Bytes,
}

/// How long a thread runs once it was dispatched: until one of the two is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// Time. Each discipline has one, so a thread that allocates nothing cannot keep its
    /// processor.
    pub time: Nanos,
    /// Allocated memory; [`Bytes::MAX`] where memory does not count.
    pub bytes: Bytes,
}

impl Quantum {
    /// Whether a thread that used this much has to make room for another one.
    pub fn is_used_up(&self, used: Used) -> bool {
        used.time >= self.time || used.bytes >= self.bytes
    }
}

/// Which of two ready threads of equal priority and rank is dispatched first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The one that became ready last: a thread that just ran goes on, and finishes what it began.
    Newest,
    /// The one that waits longest.
    Oldest,
}

impl Ties {
    /// Both of them.
    pub const ALL: [Ties; 2] = [Ties::Newest, Ties::Oldest];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Ties::Newest => "newest",
            Ties::Oldest => "oldest",
        }
    }
}

/// A discipline of the ready queue. Pure: no clock, no I/O, no allocation.
///
/// The smallest discipline is [`crate::phases::RoundRobin`]. Another one is a file beside it.
pub trait Discipline {
    /// How long a thread runs. It is the same for all threads and does not change.
    fn quantum(&self) -> Quantum;

    /// The rank of a thread after a run, from its rank before: 0 is that of a thread that never ran. Among
    /// ready threads of one priority the lowest rank is dispatched first.
    fn rank(&self, before: u64, used: Used) -> u64;

    /// Which of equal ranks goes first. It does not change.
    fn ties(&self) -> Ties {
        Ties::Oldest
    }
}
