//! Generational mark-sweep: a nursery that is copied out of, and a mature space in which nothing moves.

use super::cells::{Cells, Demand};
use super::collector::{Collection, Collector, Kind, Place};
use super::ratio::NewRatio;
use super::space::Space;
use super::table::{Object, Table};

/// The list of the objects of the nursery. That of a block of the mature space is its number plus one.
const NURSERY: u32 = 0;

/// A nursery before a space of cells.
///
/// A full nursery is collected as in [`super::generational`]: what is alive is copied into cells of the
/// mature space, if each finds one. If not, all of the heap is marked, and the mature space swept. Objects
/// that find no cell even then stay in the nursery, which is compacted.
#[derive(Debug)]
pub(super) struct GenMs {
    nursery: Space,
    mature: Cells,
    objects: Table,
    ratio: NewRatio,
}

impl GenMs {
    /// A heap of `heap` bytes.
    pub(super) fn new(heap: u64, ratio: NewRatio) -> GenMs {
        let nursery = ratio.young(heap);
        GenMs {
            nursery: Space::new(nursery),
            mature: Cells::new(heap - nursery),
            objects: Table::new(),
            ratio,
        }
    }

    /// Whether what survives of the nursery finds room, and an object of `size` bytes if it is a large one.
    fn survivors_fit(&self, size: u64) -> bool {
        let mut demand: Demand<'_> = self.mature.demand();
        for object in self.objects.of(NURSERY) {
            demand.add(self.objects.size(object));
        }
        if size > self.nursery.size {
            demand.add(size);
        }
        demand.fits()
    }

    /// Copies the live objects of the nursery into cells. Returns the bytes of the dead ones.
    fn promote(&mut self) -> u64 {
        let dead = self.nursery.sweep();
        while let Some(object) = self.objects.first(NURSERY) {
            let size = self.objects.size(object);
            let Some(block) = self.mature.take(size) else {
                // It was seen beforehand that all find room.
                break;
            };
            self.nursery.used -= size;
            self.nursery.live -= size;
            self.objects.move_to(object, block + 1);
        }
        debug_assert_eq!(self.nursery.used, 0);
        dead
    }
}

impl Collector for GenMs {
    fn allocate(&mut self, size: u64) -> Option<Place> {
        let list = if size > self.nursery.size {
            self.mature.take(size)? + 1
        } else {
            self.nursery.take(size).then_some(NURSERY)?
        };
        self.objects.add(list, size).map(Object::place)
    }

    fn died(&mut self, place: Place, size: u64) {
        match self.objects.remove(Object::at(place)) {
            NURSERY => self.nursery.live -= size,
            list => self.mature.died(list - 1, size),
        }
    }

    fn collect(&mut self, size: u64, all: bool) -> Collection {
        if !all && size <= self.nursery.size && self.survivors_fit(size) {
            let work = self.nursery.live;
            return Collection::copying(Kind::Minor, work, self.promote());
        }
        let work = self.nursery.live + self.mature.live;
        let (mut marked, mut compacted) = (self.mature.live, 0);
        let swept = self.mature.used;
        let mut freed = self.mature.sweep();
        freed += if self.survivors_fit(size) {
            self.promote()
        } else {
            marked += self.nursery.live;
            compacted = self.nursery.live;
            self.nursery.sweep()
        };
        Collection {
            marked,
            compacted,
            swept,
            ..Collection::copying(Kind::Full, work, freed)
        }
    }

    fn used(&self) -> u64 {
        self.nursery.used + self.mature.used
    }

    fn fragmented(&self) -> u64 {
        self.mature.fragmented()
    }

    fn resize(&mut self, heap: u64) {
        self.nursery.size = self.ratio.young(heap);
        self.mature.resize(heap - self.nursery.size);
    }
}
