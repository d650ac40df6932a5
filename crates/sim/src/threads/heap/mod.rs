//! Collectors: how a heap is divided, when it is full, and what a collection has to do.
//!
//! A collector knows no object by name. It hands out a place for each object and is told when the object in
//! a place dies. Those of the paper count bytes only; so it costs the same to simulate a large heap as a
//! small one. Where it matters which objects lie beside each other, there is a record of each live object.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `collector` | the trait of all collectors, and what they are told and tell |
//! | `space` | one space, by bytes |
//! | `non_generational` | mark-compact and semi-space: one space takes objects and is collected as a whole |
//! | `generational` | a nursery before a mature space of two halves or of one |
//! | `gen_ms` | generational, with a mature space that is swept and in which nothing moves |
//! | `cells` | that space: blocks of cells of one size each |
//! | `g1` | regions; each collection takes some of them |
//! | `regions` | the regions: which are free, and what lies in them |
//! | `ratio` | how much of a generational heap is young |
//! | `table` | records of live objects, in lists |

mod cells;
mod collector;
mod g1;
mod gen_ms;
mod generational;
mod non_generational;
mod ratio;
mod regions;
mod space;
mod table;

pub use collector::{Collection, Collector, Kind, Place};
pub use ratio::NewRatio;

use generational::Generational;

/// The collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// One space, marked and compacted.
    MarkCompact,
    /// Two halves; the live objects of the full one are copied into the other.
    SemiSpace,
    /// A nursery, and a mature space of two halves.
    GenCopy,
    /// A nursery, and a mature space that is marked and compacted.
    GenMc,
    /// A nursery, and a mature space that is marked and swept.
    GenMs,
    /// Regions, as in HotSpot's G1.
    G1,
}

impl Algorithm {
    /// All of them: those of the paper in its order, then today's.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::MarkCompact,
        Algorithm::SemiSpace,
        Algorithm::GenCopy,
        Algorithm::GenMc,
        Algorithm::GenMs,
        Algorithm::G1,
    ];

    /// Its name, as the paper writes it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::MarkCompact => "MarkCompact",
            Algorithm::SemiSpace => "SemiSpace",
            Algorithm::GenCopy => "GenCopy",
            Algorithm::GenMc => "GenMC",
            Algorithm::GenMs => "GenMS",
            Algorithm::G1 => "G1",
        }
    }

    /// Whether it copies within two halves. One of them is empty between collections.
    pub fn has_halves(self) -> bool {
        matches!(self, Algorithm::SemiSpace | Algorithm::GenCopy)
    }

    /// The reason why a part of its heap cannot be used, if there is one.
    pub fn loses(self) -> Option<&'static str> {
        match self {
            Algorithm::MarkCompact | Algorithm::GenMc => None,
            Algorithm::SemiSpace | Algorithm::GenCopy => {
                Some("this collector keeps half of its space empty")
            }
            Algorithm::GenMs => {
                Some("this collector moves nothing, so free room may lie in pieces")
            }
            Algorithm::G1 => Some("this collector needs whole free regions"),
        }
    }

    /// Whether its heap has young and old objects.
    pub fn has_generations(self) -> bool {
        !matches!(self, Algorithm::MarkCompact | Algorithm::SemiSpace)
    }

    /// A heap of `heap` bytes, which is divided so if it is a generational one.
    pub fn build(self, heap: u64, ratio: NewRatio) -> Box<dyn Collector> {
        match self {
            Algorithm::MarkCompact => Box::new(non_generational::mark_compact(heap)),
            Algorithm::SemiSpace => Box::new(non_generational::semi_space(heap)),
            Algorithm::GenCopy => Box::new(Generational::new(heap, ratio, true)),
            Algorithm::GenMc => Box::new(Generational::new(heap, ratio, false)),
            Algorithm::GenMs => Box::new(gen_ms::GenMs::new(heap, ratio)),
            Algorithm::G1 => Box::new(g1::G1::new(heap, ratio)),
        }
    }
}
