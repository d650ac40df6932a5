//! The heap of the literal simulator: objects one by one, in spaces that are searched.

use plimsoll_sim::threads::heap::{Algorithm, Collection, Kind};
use plimsoll_trace::ObjectId;

/// An object in a space.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) size: u64,
    pub(crate) live: bool,
}

fn bytes(space: &[Object]) -> u64 {
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
fn evacuate(space: &mut Vec<Object>) -> (Vec<Object>, u64) {
    let dead = bytes(space) - live(space);
    let survivors = space.iter().copied().filter(|object| object.live).collect();
    space.clear();
    (survivors, dead)
}

/// A heap of two spaces; the young one is empty where the collector has one only.
pub(crate) struct Heap {
    pub(crate) algorithm: Algorithm,
    pub(crate) size: u64,
    pub(crate) young: Vec<Object>,
    pub(crate) old: Vec<Object>,
}

impl Heap {
    /// The sizes of the young and of the old space.
    fn sizes(&self) -> (u64, u64) {
        let nursery = self.size / 3;
        match self.algorithm {
            Algorithm::MarkCompact => (0, self.size),
            Algorithm::SemiSpace => (0, self.size / 2),
            Algorithm::GenCopy => (nursery, (self.size - nursery) / 2),
            Algorithm::GenMc => (nursery, self.size - nursery),
        }
    }

    pub(crate) fn place(&mut self, object: Object) -> bool {
        let (young, old) = self.sizes();
        let (space, size) = match object.size > young || young == 0 {
            true => (&mut self.old, old),
            false => (&mut self.young, young),
        };
        let fits = bytes(space) + object.size <= size;
        if fits {
            space.push(object);
        }
        fits
    }

    pub(crate) fn collect(&mut self, size: u64, all: bool) -> Collection {
        let (young, old) = self.sizes();
        let is_large = size > young || young == 0;
        let fits = live(&self.young) + bytes(&self.old) <= old;
        if !all && !is_large && fits {
            let (survivors, freed) = evacuate(&mut self.young);
            let work = bytes(&survivors);
            self.old.extend(survivors);
            return Collection {
                kind: Kind::Minor,
                work,
                freed,
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
        Collection {
            kind: Kind::Full,
            work,
            freed: dead_old + dead_young,
        }
    }
}
