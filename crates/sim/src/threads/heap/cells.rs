//! A space of blocks, each divided into cells of one size: objects stay where they are, and what is dead is
//! swept.
//!
//! | word | meaning |
//! |---|---|
//! | *block* | a part of the space: 32 KiB, or less where the space has fewer than 16 of those |
//! | *cell* | room for one object within a block |
//! | *class* | a size of cells: each multiple of 8 bytes up to 64, then four sizes to each doubling |
//!
//! An object of more than half a block has blocks of its own, which need not lie together: virtual memory
//! sees to that.

use super::space::power_of_two;
use std::collections::BTreeSet;

/// The most bytes of a block.
const BLOCK: u64 = 32 << 10;
/// The fewest blocks of a space that is large enough for them.
const FEWEST: u64 = 16;
/// The difference between the smallest classes, bytes.
const GRANULE: u64 = 8;
/// The largest of those, bytes, and how many there are.
const SMALL: u64 = 64;
const SMALL_CLASSES: usize = (SMALL / GRANULE) as usize;

/// The blocks of a space.
#[derive(Debug)]
pub(super) struct Cells {
    /// Size of a block, bytes; constant.
    block: u64,
    /// Blocks of the space; more may be taken after it was made smaller.
    all: u64,
    /// Blocks that are not free.
    taken: u64,
    /// Bytes of objects, dead or alive.
    pub used: u64,
    /// Bytes of live objects.
    pub live: u64,
    /// Blocks, by number. There are as many as were ever taken at once.
    blocks: Vec<Block>,
    /// Numbers of blocks that are free again.
    free: BTreeSet<u32>,
    /// The blocks of each class that have a free cell.
    open: Vec<BTreeSet<u32>>,
}

/// A block, or the blocks of one large object.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Its class; none of a large object.
    class: Option<usize>,
    /// How many blocks they are; 0 while they are free.
    blocks: u64,
    /// Objects that have a cell, dead or alive; a number.
    cells: u64,
    /// Live ones of them; a number.
    live: u64,
}

/// Room that a number of objects need in a space.
pub(super) struct Demand<'a> {
    space: &'a Cells,
    /// Objects of each class; a number.
    cells: Vec<u64>,
    /// Blocks for large objects.
    blocks: u64,
}

impl Cells {
    /// A space of `size` bytes.
    pub(super) fn new(size: u64) -> Cells {
        let block = power_of_two(BLOCK.min(size / FEWEST));
        Cells {
            block,
            all: size / block,
            taken: 0,
            used: 0,
            live: 0,
            blocks: Vec::new(),
            free: BTreeSet::new(),
            open: Vec::new(),
        }
    }

    /// The space is of `size` bytes from now on. Its blocks are as large as before.
    pub(super) fn resize(&mut self, size: u64) {
        self.all = size / self.block;
    }

    /// Blocks that may be taken.
    fn left(&self) -> u64 {
        self.all.saturating_sub(self.taken)
    }

    /// Takes a cell, or blocks, for an object. Returns the number of the block, or nothing if there is no
    /// room.
    pub(super) fn take(&mut self, size: u64) -> Option<u32> {
        let number = match class(size, self.block) {
            None => self.take_blocks(size.max(1).div_ceil(self.block), None)?,
            Some((class, cell)) => {
                if self.open.len() <= class {
                    self.open.resize(class + 1, BTreeSet::new());
                }
                let number = match self.open[class].first() {
                    Some(&open) => open,
                    None => self.take_blocks(1, Some(class))?,
                };
                if self.blocks[number as usize].cells + 1 == self.block / cell {
                    self.open[class].remove(&number)
                } else {
                    self.open[class].insert(number)
                };
                number
            }
        };
        let block = &mut self.blocks[number as usize];
        block.cells += 1;
        block.live += 1;
        self.used += size;
        self.live += size;
        Some(number)
    }

    fn take_blocks(&mut self, blocks: u64, class: Option<usize>) -> Option<u32> {
        if blocks > self.left() {
            return None;
        }
        let number = match self.free.pop_first() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.blocks.len()).ok()?;
                // The list of its objects is one more.
                number.checked_add(1)?;
                self.blocks.push(Block::default());
                number
            }
        };
        self.taken += blocks;
        self.blocks[number as usize] = Block {
            class,
            blocks,
            ..Block::default()
        };
        Some(number)
    }

    /// An object of `size` bytes in a block is dead.
    pub(super) fn died(&mut self, block: u32, size: u64) {
        self.blocks[block as usize].live -= 1;
        self.live -= size;
    }

    /// Frees the cells of what is dead, and blocks without anything alive. Returns the bytes of dead objects.
    pub(super) fn sweep(&mut self) -> u64 {
        for (number, block) in (0..).zip(&mut self.blocks) {
            if block.blocks == 0 {
                continue;
            }
            if let Some(class) = block.class
                && block.live < block.cells
            {
                self.open[class].insert(number);
            }
            block.cells = block.live;
            if block.live == 0 {
                if let Some(class) = block.class {
                    self.open[class].remove(&number);
                }
                self.taken -= std::mem::take(&mut block.blocks);
                self.free.insert(number);
            }
        }
        let dead = self.used - self.live;
        self.used = self.live;
        dead
    }

    /// The demand of no objects.
    pub(super) fn demand(&self) -> Demand<'_> {
        Demand {
            space: self,
            cells: Vec::new(),
            blocks: 0,
        }
    }

    /// Bytes of blocks that are taken, and no object's.
    pub(super) fn fragmented(&self) -> u64 {
        self.taken * self.block - self.used
    }

    /// Free cells in the blocks of a class.
    fn free_cells(&self, class: usize) -> u64 {
        let cells = self.block / cell(class);
        let open = self.open.get(class).into_iter().flatten();
        open.map(|&number| cells - self.blocks[number as usize].cells)
            .sum()
    }
}

impl Demand<'_> {
    /// One more object.
    pub(super) fn add(&mut self, size: u64) {
        match class(size, self.space.block) {
            None => {
                let blocks = size.max(1).div_ceil(self.space.block);
                self.blocks = self.blocks.saturating_add(blocks);
            }
            Some((class, _)) => {
                if self.cells.len() <= class {
                    self.cells.resize(class + 1, 0);
                }
                self.cells[class] += 1;
            }
        }
    }

    /// Whether all of them find room, without a collection in between.
    pub(super) fn fits(&self) -> bool {
        let mut blocks = self.blocks;
        for (class, &wanted) in self.cells.iter().enumerate().filter(|(_, n)| **n > 0) {
            let more = wanted.saturating_sub(self.space.free_cells(class));
            blocks = blocks.saturating_add(more.div_ceil(self.space.block / cell(class)));
        }
        blocks <= self.space.left()
    }
}

/// The class of an object and the size of its cell, or nothing if it is large.
fn class(size: u64, block: u64) -> Option<(usize, u64)> {
    if size > block / 2 {
        return None;
    }
    let class = match size {
        ..=SMALL => (size.max(1).div_ceil(GRANULE) - 1) as usize,
        _ => {
            let below = power_of_two(size - 1);
            let quarters = (size - below).div_ceil(below / 4);
            let doublings = (below / SMALL).ilog2() as usize;
            SMALL_CLASSES + 4 * doublings + quarters as usize - 1
        }
    };
    let cell = cell(class);
    (cell <= block / 2).then_some((class, cell))
}

/// The size of the cells of a class, bytes.
fn cell(class: usize) -> u64 {
    match class.checked_sub(SMALL_CLASSES) {
        None => GRANULE * (class as u64 + 1),
        Some(above) => {
            let below = SMALL << (above / 4);
            below + (above as u64 % 4 + 1) * below / 4
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_at_most_a_quarter_larger_than_what_they_are_for() {
        assert_eq!(class(0, BLOCK), Some((0, 8)));
        assert_eq!(class(65, BLOCK), Some((8, 80)));
        assert_eq!(class(129, BLOCK), Some((12, 160)));
        let mut last = 0;
        for size in 1..=BLOCK / 2 {
            let (class, cell) = class(size, BLOCK).unwrap();
            assert!(cell >= size && cell < size + 8.max(size / 4), "{size}");
            assert!(class == last || class == last + 1, "{size}");
            last = class;
        }
        assert_eq!(class(BLOCK / 2 + 1, BLOCK), None);
        assert_eq!(class(0, 8), None, "half a block is less than a granule");
    }

    #[test]
    fn what_is_swept_is_used_again_by_its_class_only() {
        // 16 blocks of 64 bytes, four cells of 16 bytes in each.
        let mut space = Cells::new(1024);
        let blocks: Vec<u32> = (0..64).map(|_| space.take(16).unwrap()).collect();
        assert_eq!((space.take(16), space.take(8)), (None, None));
        for &block in blocks.iter().step_by(4) {
            space.died(block, 16);
        }
        assert_eq!(space.sweep(), 256);
        assert_eq!(space.fragmented(), 256);
        assert_eq!(space.take(8), None, "each block has a live object");
        assert_eq!(space.take(16), Some(0));
        assert_eq!(space.take(40), None, "no block is free");
        (0..3).for_each(|_| space.died(1, 16));
        space.sweep();
        assert_eq!((space.take(40), space.take(40)), (Some(1), None));
        space.died(1, 40);
        space.sweep();
        let mut demand = space.demand();
        demand.add(16);
        (0..8).for_each(|_| demand.add(8));
        assert!(demand.fits(), "one into a cell, and eight into a block");
        demand.add(8);
        assert!(!demand.fits());
    }
}
