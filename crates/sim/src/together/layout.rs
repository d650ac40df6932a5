//! Where the bytes of a heap are, in blocks of memory.
//!
//! A collector of `threads` knows how much is in use and what a collection examined, not where. Here objects
//! lie one behind the other in a *side* of the heap's blocks, the oldest first:
//!
//! - Allocation goes on behind the last byte in use.
//! - A collection of the young objects examines the last bytes, those that it keeps or frees, and moves the
//!   live ones together at the place where they began.
//! - A collection of the whole heap examines all bytes in use. It moves the live ones together, or copies
//!   them into the other side where the collector keeps one empty.
//!
//! Blocks that were in use before and are free now stay in memory until they are used again or given back.

use crate::threads::Collected;
use crate::threads::heap::Kind;
use plimsoll_unit::Bytes;
use std::ops::Range;

/// The blocks of one heap.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Number of the first block in the memory.
    first: u32,
    /// Blocks of a side.
    span: u32,
    /// The size of a block.
    block: Bytes,
    /// How many sides there are: two where the collector copies into an empty one.
    sides: u32,
    /// The side that is in use.
    side: u32,
    /// How many blocks of it allocation has entered since the last collection, or kept in it.
    entered: u32,
}

impl Layout {
    /// A heap that is never larger than `most`.
    pub(super) fn new(most: Bytes, block: Bytes, halves: bool) -> Layout {
        Layout {
            first: 0,
            span: (most.0.div_ceil(block.0) + 1) as u32,
            block,
            sides: if halves { 2 } else { 1 },
            side: 0,
            entered: 0,
        }
    }

    /// All blocks that it can ever use; a number.
    pub(super) fn blocks(&self) -> usize {
        self.span as usize * self.sides as usize
    }

    /// How many sides it has.
    pub(super) fn sides(&self) -> u64 {
        u64::from(self.sides)
    }

    /// All blocks of it.
    pub(super) fn all(&self) -> Range<u32> {
        self.first..self.first + self.blocks() as u32
    }

    /// Its blocks begin there.
    pub(super) fn placed_at(&mut self, first: u32) {
        self.first = first;
    }

    /// How many blocks hold these bytes.
    fn holding(&self, bytes: Bytes) -> u32 {
        bytes.0.div_ceil(self.block.0).min(u64::from(self.span)) as u32
    }

    /// How many whole blocks these bytes are.
    fn whole(&self, bytes: Bytes) -> u64 {
        bytes.0 / self.block.0
    }

    /// The blocks of a side from one place to another.
    fn part(&self, side: u32, part: Range<u32>) -> Range<u32> {
        let begin = self.first + side * self.span;
        begin + part.start.min(part.end)..begin + part.end
    }

    /// `used` is in use after an allocation. The blocks that it has entered.
    pub(super) fn enter(&mut self, used: Bytes) -> Range<u32> {
        let end = self.holding(used);
        let entered = self.part(self.side, self.entered..end);
        self.entered = self.entered.max(end);
        entered
    }

    /// A collection. The blocks that it examines, and the blocks of the other side that it copies into.
    pub(super) fn collect(&mut self, collected: &Collected) -> [Range<u32>; 2] {
        let collection = &collected.collection;
        let before = collected.used + Bytes(collection.freed);
        let young = Bytes(collection.work) + Bytes(collection.freed);
        let begin = match collection.kind {
            // Mixed ones also examine some regions elsewhere; as if what they free lay at the end.
            Kind::Minor | Kind::Mixed => self.whole(before - young),
            Kind::Full => 0,
        };
        let begin = begin.min(u64::from(self.span)) as u32;
        let examined = self.part(self.side, begin..self.holding(before));
        let mut copied = 0..0;
        if collection.kind == Kind::Full && self.sides == 2 {
            self.side = 1 - self.side;
            copied = self.part(self.side, 0..self.holding(Bytes(collection.work)));
        }
        // The block that is filled in part is entered again by the next allocation.
        self.entered = self.whole(collected.used).min(u64::from(self.span)) as u32;
        [examined, copied]
    }

    /// A block of the part of the heap that holds its first `bytes`, in turns; nothing where there is none.
    pub(super) fn within(&self, bytes: Bytes, turn: u64) -> Option<u32> {
        let count = self.whole(bytes);
        let place = turn.checked_rem(count)?;
        Some(self.first + self.side * self.span + place as u32)
    }

    /// The blocks that hold nothing while `used` is in use, those that are needed last first.
    pub(super) fn free(&self, used: Bytes) -> impl Iterator<Item = u32> + use<> {
        let other = match self.sides {
            2 => self.part(1 - self.side, 0..self.span),
            _ => 0..0,
        };
        let behind = self.part(self.side, self.holding(used)..self.span);
        other.rev().chain(behind.rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::heap::Collection;
    use plimsoll_unit::Nanos;

    fn collected(kind: Kind, work: u64, freed: u64, used: u64) -> Collected {
        Collected {
            collection: Collection::copying(kind, work, freed),
            pause: Nanos::ZERO,
            used: Bytes(used),
            live: Bytes(work),
            allocated: Bytes::ZERO,
        }
    }

    #[test]
    fn allocation_goes_on_behind_what_is_in_use() {
        let mut layout = Layout::new(Bytes(1000), Bytes(100), false);
        layout.placed_at(50);
        assert_eq!(layout.enter(Bytes(10)), 50..51);
        assert_eq!(layout.enter(Bytes(100)), 51..51);
        assert_eq!(layout.enter(Bytes(350)), 51..54);
        // 200 bytes are old, 150 are young, and 50 of the young live.
        let young = collected(Kind::Minor, 50, 100, 250);
        assert_eq!(layout.collect(&young), [52..54, 0..0]);
        assert_eq!(
            layout.enter(Bytes(260)),
            52..53,
            "the block that is half full"
        );
        let all = collected(Kind::Full, 120, 140, 120);
        assert_eq!(layout.collect(&all), [50..53, 0..0]);
        assert_eq!(layout.free(Bytes(120)).last(), Some(52));
        assert_eq!(layout.free(Bytes(120)).next(), Some(60));
    }

    #[test]
    fn a_collector_with_halves_copies_into_the_other_side() {
        let mut layout = Layout::new(Bytes(400), Bytes(100), true);
        assert_eq!(layout.blocks(), 10);
        layout.enter(Bytes(200));
        let all = collected(Kind::Full, 110, 90, 110);
        assert_eq!(layout.collect(&all), [0..2, 5..7]);
        assert_eq!(layout.enter(Bytes(120)), 6..7);
        let free: Vec<u32> = layout.free(Bytes(120)).collect();
        assert_eq!(free, [4, 3, 2, 1, 0, 9, 8, 7]);
        assert_eq!(layout.within(Bytes(250), 3), Some(6));
        assert_eq!(layout.within(Bytes(99), 3), None);
    }
}
