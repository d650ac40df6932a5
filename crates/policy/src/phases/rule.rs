//! The disciplines by name, as people choose them.

use super::{Discipline, Larf, MEMORY_QUANTUM, Mqrr, RoundRobin, TIME_BOUND, TIME_QUANTUM, Ties};
use plimsoll_unit::{Bytes, Nanos};

/// The quanta of all disciplines. Each takes those that it has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quanta {
    /// Time quantum of round robin and LARF.
    pub time: Nanos,
    /// Memory quantum of MQRR.
    pub bytes: Bytes,
    /// The longest that MQRR lets a thread run.
    pub most: Nanos,
}

impl Quanta {
    /// Those of the paper, and our bound on time.
    pub const PAPER: Quanta = Quanta {
        time: TIME_QUANTUM,
        bytes: MEMORY_QUANTUM,
        most: TIME_BOUND,
    };
}

/// Which discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// [`RoundRobin`].
    RoundRobin,
    /// [`Larf`].
    Larf,
    /// [`Mqrr`].
    Mqrr,
}

impl Rule {
    /// All of them, in the order of the paper.
    pub const ALL: [Rule; 3] = [Rule::RoundRobin, Rule::Larf, Rule::Mqrr];

    /// Its name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Rule::RoundRobin => "RR",
            Rule::Larf => "LARF",
            Rule::Mqrr => "MQRR",
        }
    }

    /// The discipline itself. `ties`: under LARF, which of equal rates goes first; the others take turns.
    pub fn build(self, quanta: Quanta, ties: Ties) -> Box<dyn Discipline + Send> {
        match self {
            Rule::RoundRobin => Box::new(RoundRobin::new(quanta.time)),
            Rule::Larf => Box::new(Larf::new(quanta.time, ties)),
            Rule::Mqrr => Box::new(Mqrr::new(quanta.bytes, quanta.most)),
        }
    }
}
