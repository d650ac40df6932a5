//! Generational mark-sweep, literally: each block is a list of the objects in its cells.

use crate::reference_heap::{Heap, NOTHING, Object, bytes, evacuate, live, young};
use plimsoll_sim::threads::heap::{Collection, Kind, NewRatio};

/// A block, or the blocks of a large object.
#[derive(Clone)]
struct Block {
    /// Size of its cells; 0 of a large object.
    cell: u64,
    blocks: u64,
    objects: Vec<Object>,
}

/// A nursery, and a mature space of blocks.
#[derive(Clone)]
pub(crate) struct Swept {
    nursery: Vec<Object>,
    nursery_size: u64,
    block: u64,
    /// Blocks of the space.
    all: u64,
    blocks: Vec<Option<Block>>,
}

/// The smallest cell for an object: 8, 16 and so on to 64, then four sizes until each doubling.
fn cell(size: u64) -> u64 {
    let (mut cell, mut step) = (8, 8);
    while cell < size {
        if cell >= 64 && cell.is_power_of_two() {
            step = cell / 4;
        }
        cell += step;
    }
    cell
}

impl Swept {
    pub(crate) fn new(heap: u64, ratio: NewRatio) -> Swept {
        let nursery_size = young(heap, ratio);
        let mature = heap - nursery_size;
        let mut block = 1;
        while block < 32768 && block * 2 <= mature / 16 {
            block *= 2;
        }
        Swept {
            nursery: Vec::new(),
            nursery_size,
            block,
            all: mature / block,
            blocks: Vec::new(),
        }
    }

    fn taken(&self) -> u64 {
        self.blocks.iter().flatten().map(|it| it.blocks).sum()
    }

    fn place_mature(&mut self, object: Object) -> bool {
        let mut new = Block {
            cell: cell(object.size),
            blocks: 1,
            objects: vec![object],
        };
        if new.cell > self.block / 2 {
            new.cell = 0;
            new.blocks = object.size.max(1).div_ceil(self.block);
        } else {
            let most = (self.block / new.cell) as usize;
            let mut open = self.blocks.iter_mut().flatten();
            if let Some(open) = open.find(|it| it.cell == new.cell && it.objects.len() < most) {
                open.objects.push(object);
                return true;
            }
        }
        if self.taken() + new.blocks > self.all {
            return false;
        }
        match self.blocks.iter_mut().find(|it| it.is_none()) {
            Some(free) => *free = Some(new),
            None => self.blocks.push(Some(new)),
        }
        true
    }

    fn survivors_fit(&self, size: u64) -> bool {
        let mut tried = self.clone();
        let large = Object {
            size,
            ..self.nursery.first().copied().unwrap_or(Object {
                id: plimsoll_trace::ObjectId(0),
                size,
                live: true,
            })
        };
        let large = (size > self.nursery_size).then_some(large);
        let survivors = self.nursery.iter().copied().filter(|it| it.live);
        survivors.chain(large).all(|it| tried.place_mature(it))
    }

    fn promote(&mut self) -> (u64, u64) {
        let (survivors, dead) = evacuate(&mut self.nursery);
        for &survivor in &survivors {
            assert!(self.place_mature(survivor));
        }
        (bytes(&survivors), dead)
    }
}

impl Heap for Swept {
    fn place(&mut self, object: Object) -> bool {
        if object.size > self.nursery_size {
            return self.place_mature(object);
        }
        let fits = bytes(&self.nursery) + object.size <= self.nursery_size;
        if fits {
            self.nursery.push(object);
        }
        fits
    }

    fn collect(&mut self, size: u64, all: bool) -> Collection {
        if !all && size <= self.nursery_size && self.survivors_fit(size) {
            let (work, freed) = self.promote();
            return Collection {
                work,
                freed,
                ..NOTHING
            };
        }
        let mut collection = Collection {
            kind: Kind::Full,
            ..NOTHING
        };
        for slot in &mut self.blocks {
            let Some(block) = slot else { continue };
            collection.swept += bytes(&block.objects);
            let (survivors, dead) = evacuate(&mut block.objects);
            collection.freed += dead;
            collection.marked += bytes(&survivors);
            block.objects = survivors;
            if block.objects.is_empty() {
                *slot = None;
            }
        }
        collection.work = collection.marked + live(&self.nursery);
        if self.survivors_fit(size) {
            collection.freed += self.promote().1;
        } else {
            let (survivors, dead) = evacuate(&mut self.nursery);
            collection.freed += dead;
            collection.compacted = bytes(&survivors);
            collection.marked += bytes(&survivors);
            self.nursery = survivors;
        }
        collection
    }

    fn objects(&mut self) -> Vec<&mut Object> {
        let mature = self.blocks.iter_mut().flatten();
        let mature = mature.flat_map(|block| &mut block.objects);
        self.nursery.iter_mut().chain(mature).collect()
    }

    fn fragmented(&self) -> u64 {
        let blocks = self.blocks.iter().flatten();
        blocks
            .map(|block| block.blocks * self.block - bytes(&block.objects))
            .sum()
    }
}
