//! Collectors: how a heap is divided, when it is full, and what a collection has to do.
//!
//! A collector knows no object by name. It hands out a place for each object and is told when the object in
//! a place dies; so it costs the same to simulate a large heap as a small one.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `whole` | mark-compact and semi-space: one space takes objects and is collected as a whole |
//! | `generational` | a nursery before a mature space: what the two below have in common |
//! | `gen_copy`, `gen_mc` | generational, with a mature space of two halves or of one |

mod gen_copy;
mod gen_mc;
mod generational;
mod whole;

/// Where an object is, as its collector knows it; the object keeps it from allocation to death.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub(crate) u64);

/// Which part of the heap a collection examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The young objects.
    Minor,
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
    /// Bytes of dead objects whose room can be used again.
    pub freed: u64,
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
}

impl Algorithm {
    /// All of them, in the order of the paper.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::MarkCompact,
        Algorithm::SemiSpace,
        Algorithm::GenCopy,
        Algorithm::GenMc,
    ];

    /// Its name, as the paper writes it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::MarkCompact => "MarkCompact",
            Algorithm::SemiSpace => "SemiSpace",
            Algorithm::GenCopy => "GenCopy",
            Algorithm::GenMc => "GenMC",
        }
    }

    /// Whether half of a space is always empty.
    pub fn has_halves(self) -> bool {
        matches!(self, Algorithm::SemiSpace | Algorithm::GenCopy)
    }

    /// A heap of `heap` bytes. Of a generational one, a third is the nursery (section 5).
    pub fn build(self, heap: u64) -> Box<dyn Collector> {
        match self {
            Algorithm::MarkCompact => Box::new(whole::mark_compact(heap)),
            Algorithm::SemiSpace => Box::new(whole::semi_space(heap)),
            Algorithm::GenCopy => Box::new(gen_copy::new(heap)),
            Algorithm::GenMc => Box::new(gen_mc::new(heap)),
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
