//! The settings of a simulation of several programs, and the refusal of some.

use crate::paging::Costs;
use crate::threads::Settings;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Priority, Weight};

/// The least memory that is shared. The broker's core ignores differences of 64 KiB.
pub const LEAST_MEMORY: Bytes = Bytes::mib(1);
/// The most memory that is shared.
pub const MOST_MEMORY: Bytes = Bytes(1 << 50);
/// The most programs.
pub const MOST_PROGRAMS: usize = 256;
/// The most times the memory that a heap may be at most.
pub(super) const MOST_TIMES: u64 = 16;
/// The most blocks of the memory.
const BLOCKS: u64 = 4096;
/// The bytes of the least block: a page.
const LEAST_BLOCK: u64 = 4096;

/// The way in which heaps get their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// None: each stays as large as it may be at most.
    Fixed,
    /// By the broker; the programs report their collectors' figures, as the shipped adapters do. So a
    /// program wants no more than it has use for, and what others do not want goes where it saves most.
    Shares,
    /// By the broker; the programs report nothing of their collectors: weighted shares, as in Viengoos.
    Weights,
    /// Each heap by itself, by the allocation stalls that it sees.
    IslaVista,
    /// Each heap by itself, by the square root of its allocation rate and its cost of a collection.
    SquareRoot,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] = [
        Policy::Fixed,
        Policy::Shares,
        Policy::Weights,
        Policy::IslaVista,
        Policy::SquareRoot,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fixed => "fixed",
            Policy::Shares => "shares",
            Policy::Weights => "weights",
            Policy::IslaVista => "isla-vista",
            Policy::SquareRoot => "square-root",
        }
    }

    /// Whether a broker grants the memory.
    pub fn is_brokered(self) -> bool {
        matches!(self, Policy::Shares | Policy::Weights)
    }
}

/// One program. Points of time are since the beginning of all.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// Its name in errors and tables.
    pub name: String,
    /// Relative to the others of its class.
    pub weight: Weight,
    /// A higher class is served first.
    pub priority: Priority,
    /// When it starts.
    pub start: Nanos,
    /// When it is ended, if it has not ended by then.
    pub stop: Option<Nanos>,
    /// Its processors, scheduler and collector. The size of the heap is the most that it may ever be.
    pub settings: Settings,
    /// The most that lives at once in it, as recorded.
    pub largest_live: Bytes,
}

/// Memory that something takes that is no principal, holds and gives back: a memory hog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// The size of its memory at most.
    pub size: Bytes,
    /// When it begins to take memory, and to give it back.
    pub from: Nanos,
    /// See `from`.
    pub until: Nanos,
    /// Bytes that it takes, or gives back, in a second.
    pub rate: u64,
}

/// A simulation: its memory, its programs, and its hogs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The memory of all.
    pub memory: Bytes,
    /// The way in which the heaps get their sizes.
    pub policy: Policy,
    /// Costs of paging.
    pub costs: Costs,
    /// Blocks of the older half of its live data that a program touches for each block that it allocates.
    pub reach: u64,
    /// The programs.
    pub entrants: Vec<Entrant>,
    /// The hogs.
    pub hogs: Vec<Hog>,
}

/// Why a setup is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    #[error("there is no program: give at least one trace")]
    NoPrograms,
    #[error("there are {entrants} entrants and {programs} programs: give one for each")]
    Unequal { entrants: usize, programs: usize },
    #[error("{0} programs are more than {MOST_PROGRAMS}: give fewer traces")]
    TooMany(usize),
    #[error("a memory of {0} bytes is not simulated: give from 1 MiB to 1 PiB")]
    Memory(u64),
    #[error(
        "{name} has up to {live} bytes alive at once, more than the memory of {memory} bytes: \
         give more memory"
    )]
    TooSmall {
        name: String,
        live: u64,
        memory: u64,
    },
    #[error(
        "the heap of {name} may be {heap} bytes: give at least 1 byte, and at most 16 times the memory"
    )]
    Heap { name: String, heap: u64 },
    #[error("{name} is to stop before it starts: give a later time")]
    Backwards { name: String },
    #[error("a hog of {size} bytes {why}")]
    Hog { size: u64, why: &'static str },
}

impl Setup {
    /// The size of a block: the memory has at most 4096 of them, so that large memories cost no more time.
    pub fn block(&self) -> Bytes {
        let least = (self.memory / BLOCKS).0.next_power_of_two();
        Bytes(least.max(LEAST_BLOCK))
    }

    /// Checks it.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        let memory = self.memory;
        match self.entrants.len() {
            0 => return Err(Refusal::NoPrograms),
            1..=MOST_PROGRAMS => {}
            many => return Err(Refusal::TooMany(many)),
        }
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&memory) {
            return Err(Refusal::Memory(memory.0));
        }
        self.entrants
            .iter()
            .try_for_each(|entrant| entrant.check(memory))?;
        self.hogs.iter().try_for_each(|hog| hog.check(memory))
    }
}

impl Entrant {
    fn check(&self, memory: Bytes) -> Result<(), Refusal> {
        let name = || self.name.clone();
        let (live, heap) = (self.largest_live, self.settings.heap);
        if live > memory {
            Err(Refusal::TooSmall {
                name: name(),
                live: live.0,
                memory: memory.0,
            })
        } else if !(Bytes(1)..=memory * MOST_TIMES).contains(&heap) {
            Err(Refusal::Heap {
                name: name(),
                heap: heap.0,
            })
        } else if self.stop.is_some_and(|stop| stop <= self.start) {
            Err(Refusal::Backwards { name: name() })
        } else {
            Ok(())
        }
    }
}

impl Hog {
    fn check(&self, memory: Bytes) -> Result<(), Refusal> {
        let why = if self.size > memory {
            "is larger than the memory: give less"
        } else if self.rate == 0 {
            "takes nothing in a second: give a rate above 0"
        } else if self.until <= self.from {
            "gives back before it takes: give a later end"
        } else {
            return Ok(());
        };
        Err(Refusal::Hog {
            size: self.size.0,
            why,
        })
    }
}
