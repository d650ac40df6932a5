//! Two generations: all that survives one collection of the nursery is mature.

use super::collector::{Collection, Collector, Kind, Place};
use super::ratio::NewRatio;
use super::space::Space;

/// The place of an object that was allocated in the mature space.
const MATURE: u64 = 0;

/// A nursery before a mature space.
///
/// When the nursery is full, its live objects are copied into the mature space. If they do not fit there, the
/// whole heap is collected. If they do not fit even then, they stay in the nursery, which is compacted: a
/// heap is too small only if a whole collection makes no room. An object larger than the nursery goes into
/// the mature space at once.
///
/// No dead object of the mature space keeps one of the nursery alive: death is known exactly, as in the
/// paper.
#[derive(Debug)]
pub(super) struct Generational {
    nursery: Space,
    mature: Space,
    /// Whether the mature space is copied, or else compacted.
    copies: bool,
    ratio: NewRatio,
    /// The place of objects in the nursery; it is new whenever they have moved on, so that whoever still has
    /// an older one is mature.
    era: u64,
}

impl Generational {
    /// A heap of `heap` bytes. One that copies its mature space has two halves of that.
    pub(super) fn new(heap: u64, ratio: NewRatio, copies: bool) -> Generational {
        let mut new = Generational {
            nursery: Space::default(),
            mature: Space::default(),
            copies,
            ratio,
            era: MATURE + 1,
        };
        new.resize(heap);
        new
    }

    /// Moves the live objects of the nursery into the mature space. Returns the bytes of the dead ones.
    fn promote(&mut self) -> u64 {
        let dead = self.nursery.sweep();
        self.mature.used += self.nursery.live;
        self.mature.live += self.nursery.live;
        self.nursery.used = 0;
        self.nursery.live = 0;
        self.era += 1;
        dead
    }

    /// Whether the mature space has room for what survives of the nursery, and for an object of `size` bytes
    /// if that is a large one.
    fn survivors_fit(&self, size: u64) -> bool {
        let large = if size > self.nursery.size { size } else { 0 };
        self.nursery.live.saturating_add(large) <= self.mature.room()
    }
}

impl Collector for Generational {
    fn allocate(&mut self, size: u64) -> Option<Place> {
        if size > self.nursery.size {
            return self.mature.take(size).then_some(Place::new(MATURE));
        }
        self.nursery.take(size).then_some(Place::new(self.era))
    }

    fn died(&mut self, place: Place, size: u64) {
        let space = if place.number() == self.era {
            &mut self.nursery
        } else {
            &mut self.mature
        };
        space.live -= size;
    }

    fn collect(&mut self, size: u64, all: bool) -> Collection {
        if !all && size <= self.nursery.size && self.survivors_fit(size) {
            let work = self.nursery.live;
            return Collection::copying(Kind::Minor, work, self.promote());
        }
        let work = self.nursery.live + self.mature.live;
        let mut freed = self.mature.sweep();
        let mut stays = 0;
        freed += if self.survivors_fit(size) {
            self.promote()
        } else {
            stays = self.nursery.live;
            self.nursery.sweep()
        };
        if self.copies {
            Collection {
                marked: stays,
                compacted: stays,
                ..Collection::copying(Kind::Full, work, freed)
            }
        } else {
            Collection::compacting(work, freed)
        }
    }

    fn used(&self) -> u64 {
        self.nursery.used + self.mature.used
    }

    fn resize(&mut self, heap: u64) {
        self.nursery.size = self.ratio.young(heap);
        let halves = if self.copies { 2 } else { 1 };
        self.mature.size = (heap - self.nursery.size) / halves;
    }
}
