//! Collectors: how a heap is divided, when it is full, and what a collection has to do.
//!
//! A collector knows no object by name. It hands out a place for each object and is told when the object in
//! a place dies. Those of the paper count bytes only; so it costs the same to simulate a large heap as a
//! small one. Where it matters which objects lie beside each other, there is a record of each live object.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `whole` | mark-compact and semi-space: one space takes objects and is collected as a whole |
//! | `generational` | a nursery before a mature space: what the two below have in common |
//! | `gen_copy`, `gen_mc` | generational, with a mature space of two halves or of one |
//! | `gen_ms` | generational, with a mature space that is swept and in which nothing moves |
//! | `cells` | that space: blocks of cells of one size each |
//! | `g1` | regions, of which each collection takes some |
//! | `regions` | the regions: which are free, and what lies in them |
//! | `ratio` | how much of a generational heap is young |
//! | `table` | records of live objects, in lists |

mod cells;
mod g1;
mod gen_copy;
mod gen_mc;
mod gen_ms;
mod generational;
mod ratio;
mod regions;
mod table;
mod whole;

pub use ratio::NewRatio;

use std::num::NonZeroU64;

/// Where an object is, as its collector knows it; the object keeps it from allocation to death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(NonZeroU64);

impl Place {
    /// The place of a number that its collector chose: any but the greatest.
    pub(crate) const fn new(number: u64) -> Place {
        // One more, so that no place takes no room of its own.
        Place(NonZeroU64::MIN.saturating_add(number))
    }

    /// That number.
    fn number(self) -> u64 {
        self.0.get() - 1
    }
}

/// Which part of the heap a collection examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The young objects.
    Minor,
    /// The young objects, and some of the regions that hold old ones.
    Mixed,
    /// All of it.
    Full,
}

/// What a collection did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// What it examined.
    pub kind: Kind,
    /// Bytes that it marked or copied: those of the objects that it found alive, each once. This is the
    /// collection work of the paper's section 5.2.
    pub work: u64,
    /// The part of the work that was marked where it lay. The rest was copied.
    pub marked: u64,
    /// The part of what was marked that was then moved together.
    pub compacted: u64,
    /// Bytes of dead and live objects that were swept.
    pub swept: u64,
    /// Bytes that are marked while the threads go on after this collection. No pause contains that.
    pub concurrent: u64,
    /// Bytes of dead objects whose room can be used again.
    pub freed: u64,
}

impl Collection {
    /// One that copies what it finds alive.
    pub(crate) fn copying(kind: Kind, work: u64, freed: u64) -> Collection {
        Collection {
            kind,
            work,
            marked: 0,
            compacted: 0,
            swept: 0,
            concurrent: 0,
            freed,
        }
    }

    /// One that marks all that is alive, and moves it together.
    fn compacting(work: u64, freed: u64) -> Collection {
        Collection {
            marked: work,
            compacted: work,
            ..Collection::copying(Kind::Full, work, freed)
        }
    }
}

/// A heap under one collection algorithm.
///
/// The calls: [`Collector::allocate`] for each object; when it finds no room [`Collector::collect`], and
/// again, and at last `collect` with `all`. [`Collector::died`] comes once for each object, at any time after
/// its allocation.
pub trait Collector {
    /// Room for an object of `size` bytes, or nothing where a collection is needed.
    fn allocate(&mut self, size: u64) -> Option<Place>;

    /// The object of `size` bytes in this place is dead. Its room is free after the next collection that
    /// examines it.
    fn died(&mut self, place: Place, size: u64);

    /// Collects because an object of `size` bytes found no room: as little as the algorithm allows, or with
    /// `all` the whole heap.
    fn collect(&mut self, size: u64, all: bool) -> Collection;

    /// Bytes in use, dead or alive.
    fn used(&self) -> u64;

    /// Bytes that no object uses, and that not every object could: in cells and regions that are larger than
    /// what is in them. Nothing where objects lie close together.
    fn fragmented(&self) -> u64 {
        0
    }

    /// The heap is of `heap` bytes from now on. Nothing moves: where more is in use than that, nothing has
    /// room until a collection has found enough that is dead.
    fn resize(&mut self, heap: u64);
}

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

    /// Whether it copies within two halves, of which one is empty between collections.
    pub fn has_halves(self) -> bool {
        matches!(self, Algorithm::SemiSpace | Algorithm::GenCopy)
    }

    /// What keeps a part of its heap from being used, if anything does.
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
            Algorithm::MarkCompact => Box::new(whole::mark_compact(heap)),
            Algorithm::SemiSpace => Box::new(whole::semi_space(heap)),
            Algorithm::GenCopy => Box::new(gen_copy::new(heap, ratio)),
            Algorithm::GenMc => Box::new(gen_mc::new(heap, ratio)),
            Algorithm::GenMs => Box::new(gen_ms::GenMs::new(heap, ratio)),
            Algorithm::G1 => Box::new(g1::G1::new(heap, ratio)),
        }
    }
}

/// One space of a heap.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    /// Its size, bytes; less than what is in use after the heap has become smaller.
    size: u64,
    /// Bytes of objects in it, dead or alive. Rises by allocation, falls by collection.
    used: u64,
    /// Bytes of live objects in it.
    live: u64,
}

impl Space {
    fn new(size: u64) -> Space {
        Space {
            size,
            ..Space::default()
        }
    }

    /// Takes room for an object, if there is any.
    fn take(&mut self, size: u64) -> bool {
        let fits = size <= self.room();
        if fits {
            self.used += size;
            self.live += size;
        }
        fits
    }

    /// Bytes that are free.
    fn room(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    /// Frees what is dead. Returns how much that is, bytes.
    fn sweep(&mut self) -> u64 {
        let dead = self.used - self.live;
        self.used = self.live;
        dead
    }
}

/// The largest power of two that is not above a number, and 1 for 0.
fn power_of_two(most: u64) -> u64 {
    1 << most.max(1).ilog2()
}
