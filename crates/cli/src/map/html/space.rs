//! Where the memory of one look lies: the held part of an address space in blocks, few enough to
//! keep many looks.

use super::State;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_map::Kind;

/// Most parts of one look.
const MOST: usize = 1024;
/// Smallest block, bytes: a power of two.
const SMALLEST: u64 = 64 << 10;
/// Most empty ranges that are kept, the largest ones.
const MOST_EMPTY: usize = 64;
/// Smaller empty ranges are not shown, bytes.
const SMALLEST_EMPTY: u64 = 4 << 20;

/// Memory of one area in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Which block: its address divided by the size of a block.
    pub(super) block: u64,
    /// Its purpose.
    pub(super) kind: Kind,
    /// KiB in memory.
    pub(super) resident: u32,
    /// KiB in swap.
    pub(super) swapped: u32,
    /// KiB in the page cache only.
    pub(super) cached: u32,
}

impl Part {
    /// KiB in any of these places.
    pub(super) fn held(&self) -> u64 {
        u64::from(self.resident) + u64::from(self.swapped) + u64::from(self.cached)
    }
}

/// The memory of a process by address, as coarse as its size asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block, a power of two.
    block: u64,
    /// By address.
    parts: Vec<Part>,
    /// Mapped, and nothing is in memory, in swap or in the page cache.
    empty: Vec<(Addresses, Kind)>,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            block: SMALLEST,
            parts: Vec::new(),
            empty: Vec::new(),
        }
    }
}

impl Space {
    /// Adds pages that are in one state and belong to one area. Ranges come by address; what lies
    /// before the last block is left out.
    pub fn add(&mut self, addresses: Addresses, kind: Kind, state: State) {
        if state == State::Absent {
            self.add_empty(addresses, kind);
            return;
        }
        let last = self.parts.last().map_or(0, |part| part.block * self.block);
        let mut at = addresses.start.max(last);
        while at < addresses.end {
            let block = at / self.block;
            let end = (block + 1).saturating_mul(self.block).min(addresses.end);
            let kib = u32::try_from((end - at) >> 10).unwrap_or(u32::MAX);
            let mut part = Part {
                block,
                kind,
                resident: 0,
                swapped: 0,
                cached: 0,
            };
            *match state {
                State::Resident => &mut part.resident,
                State::Swapped => &mut part.swapped,
                State::Cached | State::Absent => &mut part.cached,
            } = kib;
            push(&mut self.parts, part);
            at = end;
            while self.parts.len() > MOST {
                *self = self.coarser(self.block * 2);
            }
        }
    }

    /// Keeps the largest.
    fn add_empty(&mut self, addresses: Addresses, kind: Kind) {
        let size = |range: &Addresses| range.end.saturating_sub(range.start);
        match self.empty.last_mut() {
            Some((last, same)) if last.end == addresses.start && *same == kind => {
                last.end = addresses.end;
                return;
            }
            _ if size(&addresses) < SMALLEST_EMPTY => return,
            _ => {}
        }
        if self.empty.len() >= MOST_EMPTY {
            let smallest = (0..self.empty.len()).min_by_key(|&i| size(&self.empty[i].0));
            match smallest {
                Some(index) if size(&self.empty[index].0) < size(&addresses) => {
                    self.empty.remove(index);
                }
                _ => return,
            }
        }
        self.empty.push((addresses, kind));
    }

    /// The same with blocks of this many bytes, a power of two. Never finer than it is.
    pub(super) fn coarser(&self, block: u64) -> Space {
        let block = block.max(self.block);
        let ratio = block / self.block;
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let block = part.block / ratio;
            push(&mut parts, Part { block, ..*part });
        }
        Space {
            block,
            parts,
            empty: self.empty.clone(),
        }
    }

    /// Bytes of a block.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// The parts that hold memory, by address; several areas of a block follow one another.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Mapped ranges that hold nothing.
    pub(super) fn empty(&self) -> &[(Addresses, Kind)] {
        &self.empty
    }
}

/// Adds to the part of the same block and area, if there is one. A block has at most as many parts
/// as there are areas.
fn push(parts: &mut Vec<Part>, new: Part) {
    let same_block = parts
        .iter_mut()
        .rev()
        .take_while(|part| part.block == new.block);
    let Some(part) = same_block.into_iter().find(|part| part.kind == new.kind) else {
        parts.push(new);
        return;
    };
    part.resident = part.resident.saturating_add(new.resident);
    part.swapped = part.swapped.saturating_add(new.swapped);
    part.cached = part.cached.saturating_add(new.cached);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::GIB;

    fn kib(space: &Space) -> u64 {
        space.parts().iter().map(Part::held).sum()
    }

    #[test]
    fn a_large_heap_is_kept_in_few_blocks() {
        let mut space = Space::default();
        space.add(0..4 * GIB, Kind::Old, State::Resident);
        space.add(4 * GIB..5 * GIB, Kind::Old, State::Swapped);
        space.add(5 * GIB..1 << 46, Kind::Old, State::Absent);
        assert!(space.parts().len() <= MOST && space.parts().len() > MOST / 4);
        assert_eq!(kib(&space), (5 * GIB) >> 10);
        assert_eq!(space.empty().len(), 1);
    }

    #[test]
    fn of_many_empty_ranges_the_largest_are_kept() {
        let mut space = Space::default();
        for index in 1..=1000u64 {
            let start = index << 32;
            space.add(
                start..start + index * SMALLEST_EMPTY,
                Kind::Other,
                State::Absent,
            );
        }
        let least = space
            .empty()
            .iter()
            .map(|(range, _)| range.end - range.start)
            .min();
        assert_eq!(space.empty().len(), MOST_EMPTY);
        assert!(least > Some(900 * SMALLEST_EMPTY));
    }

    proptest! {
        /// With any mappings, memory and work are bounded and nothing is lost.
        #[test]
        fn any_address_space_fits(
            ranges in prop::collection::vec((1u64..1 << 24, 1u64..2000, 0usize..20, 0usize..3), 1..3000),
        ) {
            let mut space = Space::default();
            let (mut at, mut pages) = (0, 0);
            for (gap, size, kind, state) in ranges {
                at += gap << 12;
                let state = [State::Resident, State::Swapped, State::Cached][state];
                space.add(at..at + (size << 12), Kind::ALL[kind], state);
                at += size << 12;
                pages += size;
                prop_assert!(space.parts().len() <= MOST);
            }
            prop_assert_eq!(kib(&space), pages * 4);
            prop_assert!(space.parts().is_sorted_by_key(|part| part.block));
        }
    }
}
