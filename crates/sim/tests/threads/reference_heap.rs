//! The heaps of the literal simulator: objects one by one, in spaces that are searched. Here are those of the
//! paper's collectors.

use crate::reference_cells::Swept;
use crate::reference_regions::Regions;
use plimsoll_sim::threads::heap::{Algorithm, Collection, Kind, NewRatio};
use plimsoll_trace::ObjectId;

/// An object in a space.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) size: u64,
    pub(crate) live: bool,
}

pub(crate) fn bytes(space: &[Object]) -> u64 {
    space.iter().map(|object| object.size).sum()
}

pub(crate) fn live(space: &[Object]) -> u64 {
    space
        .iter()
        .filter(|object| object.live)
        .map(|o| o.size)
        .sum()
}

/// Empties a space. Returns the objects that were alive, and the bytes of the others.
pub(crate) fn evacuate(space: &mut Vec<Object>) -> (Vec<Object>, u64) {
    let dead = bytes(space) - live(space);
    let survivors = space.iter().copied().filter(|object| object.live).collect();
    space.clear();
    (survivors, dead)
}

/// A collection that did nothing yet.
pub(crate) const NOTHING: Collection = Collection {
    kind: Kind::Minor,
    work: 0,
    marked: 0,
    compacted: 0,
    swept: 0,
    concurrent: 0,
    freed: 0,
};

/// A heap.
pub(crate) trait Heap {
    /// Whether an object found room.
    fn place(&mut self, object: Object) -> bool;
    /// Collects for an object of that size.
    fn collect(&mut self, size: u64, all: bool) -> Collection;
    /// All objects.
    fn objects(&mut self) -> Vec<&mut Object>;
    /// Bytes of cells and regions that are not used.
    fn fragmented(&self) -> u64 {
        0
    }
}

/// The largest part of a whole that is young: the rest is at least `ratio` times as much.
pub(crate) fn young(whole: u64, ratio: NewRatio) -> u64 {
    let (mut fits, mut not) = (0, whole + 1);
    while not - fits > 1 {
        let tried = fits + (not - fits) / 2;
        if (whole - tried) as f64 >= tried as f64 * ratio.times() {
            fits = tried;
        } else {
            not = tried;
        }
    }
    fits
}

/// The heap of a collector.
pub(crate) fn heap(algorithm: Algorithm, size: u64, ratio: NewRatio) -> Box<dyn Heap> {
    match algorithm {
        Algorithm::G1 => Box::new(Regions::new(size, ratio)),
        Algorithm::GenMs => Box::new(Swept::new(size, ratio)),
        _ => Box::new(Spaces {
            algorithm,
            size,
            ratio,
            young: Vec::new(),
            old: Vec::new(),
        }),
    }
}

/// A heap of two spaces; the young one is empty where the collector has one only.
struct Spaces {
    algorithm: Algorithm,
    size: u64,
    ratio: NewRatio,
    young: Vec<Object>,
    old: Vec<Object>,
}

impl Spaces {
    /// The sizes of the young and of the old space.
    fn sizes(&self) -> (u64, u64) {
        let nursery = young(self.size, self.ratio);
        match self.algorithm {
            Algorithm::MarkCompact => (0, self.size),
            Algorithm::SemiSpace => (0, self.size / 2),
            Algorithm::GenCopy => (nursery, (self.size - nursery) / 2),
            Algorithm::GenMc => (nursery, self.size - nursery),
            other => panic!("{other:?} has no spaces"),
        }
    }
}

impl Heap for Spaces {
    fn place(&mut self, object: Object) -> bool {
        let (young, old) = self.sizes();
        let (space, size) = if object.size > young || young == 0 {
            (&mut self.old, old)
        } else {
            (&mut self.young, young)
        };
        let fits = bytes(space) + object.size <= size;
        if fits {
            space.push(object);
        }
        fits
    }

    fn collect(&mut self, size: u64, all: bool) -> Collection {
        let (young, old) = self.sizes();
        let is_large = size > young || young == 0;
        let fits = live(&self.young) + bytes(&self.old) <= old;
        if !all && !is_large && fits {
            let (survivors, freed) = evacuate(&mut self.young);
            let work = bytes(&survivors);
            self.old.extend(survivors);
            return Collection {
                work,
                freed,
                ..NOTHING
            };
        }
        let (mut survivors, dead_old) = evacuate(&mut self.old);
        let (young_survivors, dead_young) = evacuate(&mut self.young);
        let work = bytes(&survivors) + bytes(&young_survivors);
        let wanted = if is_large && young > 0 { size } else { 0 };
        if work + wanted <= old || young == 0 {
            survivors.extend(young_survivors);
        } else {
            self.young = young_survivors;
        }
        self.old = survivors;
        let marked = match self.algorithm {
            // Objects that stay in the nursery are not copied.
            Algorithm::SemiSpace | Algorithm::GenCopy => bytes(&self.young),
            _ => work,
        };
        Collection {
            kind: Kind::Full,
            work,
            marked,
            compacted: marked,
            freed: dead_old + dead_young,
            ..NOTHING
        }
    }

    fn objects(&mut self) -> Vec<&mut Object> {
        self.young.iter_mut().chain(&mut self.old).collect()
    }
}
