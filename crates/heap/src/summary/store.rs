//! Where summaries are stored: blocks of one table of `side`, in multiples of 16 bytes.
//!
//! Several threads may take and free blocks at once, but only while nobody reads summaries. A freed
//! block's first word holds the number of the next free block of its size.

use crate::side::{SUMMARY, Side};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Block sizes are multiples of this, in bytes.
pub(crate) const UNIT: usize = 16;
const SIZES: usize = SUMMARY / UNIT;

/// The store of summaries. Markers use it at the same time.
#[derive(Default)]
pub(super) struct Store {
    blocks: Mutex<Blocks>,
    /// Units in use.
    used: AtomicUsize,
}

/// Which blocks are free: the part of [`Store`] under its lock.
#[derive(Default)]
struct Blocks {
    /// The first free block of each size; the index is its units, minus 1.
    free: [u32; SIZES],
    /// Units handed out so far, freed ones included.
    end: u32,
}

impl Store {
    /// Takes a block of `bytes` bytes and returns its number, which is never 0. `None` if there is
    /// no room.
    pub(super) fn take(&self, side: &Side, bytes: usize) -> Option<u32> {
        let units = bytes.div_ceil(UNIT).clamp(1, SIZES);
        let mut blocks = self.blocks();
        let first = blocks.free[units - 1];
        let place = if first != 0 {
            let link = self.block(side, first, UNIT);
            blocks.free[units - 1] = u32::from_le_bytes([link[0], link[1], link[2], link[3]]);
            first
        } else {
            let end = blocks.end as usize;
            if !side.cover_summaries((end + units) * UNIT) {
                return None;
            }
            blocks.end = u32::try_from(end + units).ok()?;
            end as u32 + 1
        };
        self.block(side, place, UNIT)[0] = units as u8;
        self.used.fetch_add(units, Relaxed);
        Some(place)
    }

    /// Frees a block.
    pub(super) fn free(&self, side: &Side, place: u32) {
        let link = self.block(side, place, UNIT);
        let units = usize::from(link[0]).clamp(1, SIZES);
        let first = &mut self.blocks().free[units - 1];
        link[..4].copy_from_slice(&first.to_le_bytes());
        *first = place;
        self.used.fetch_sub(units, Relaxed);
    }

    /// The bytes of a block. The first byte holds the block's size and must stay. Only the thread
    /// that took the block writes to it, and nobody reads it meanwhile.
    pub(super) fn bytes<'a>(&self, side: &'a Side, place: u32) -> &'a mut [u8] {
        let units = usize::from(self.block(side, place, UNIT)[0]).clamp(1, SIZES);
        self.block(side, place, units * UNIT)
    }

    #[expect(clippy::mut_from_ref, reason = "as `bytes`")]
    fn block<'a>(&self, side: &'a Side, place: u32, bytes: usize) -> &'a mut [u8] {
        let (start, _) = side.summaries();
        // SAFETY: `take` hands out numbers of blocks inside the table; one thread at a time uses a
        // block, see above.
        unsafe { std::slice::from_raw_parts_mut(start.add((place as usize - 1) * UNIT), bytes) }
    }

    /// The addresses at which blocks were ever handed out.
    pub(super) fn range(&self, side: &Side) -> Range<usize> {
        let start = side.summaries().0 as usize;
        start..start + self.blocks().end as usize * UNIT
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the blocks in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed) * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Linux;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn blocks_do_not_overlap_and_are_used_again(
            steps in proptest::collection::vec((any::<bool>(), 1usize..=SUMMARY), 1..300),
        ) {
            let side = Side::reserve(Arc::new(Linux::new()), 16 << 20).unwrap();
            let store = Store::default();
            let mut blocks: Vec<(u32, usize, u8)> = Vec::new();
            for (at, (free, bytes)) in steps.into_iter().enumerate() {
                if free && !blocks.is_empty() {
                    store.free(&side, blocks.swap_remove(at % blocks.len()).0);
                } else {
                    let place = store.take(&side, bytes).unwrap();
                    store.bytes(&side, place)[1..].fill(at as u8);
                    blocks.push((place, bytes, at as u8));
                }
                for &(place, bytes, mark) in &blocks {
                    let all = store.bytes(&side, place);
                    prop_assert!(all.len() >= bytes && all.len() < bytes + UNIT);
                    prop_assert!(all[1..].iter().all(|&byte| byte == mark));
                }
            }
            let units: usize = blocks.iter().map(|(_, bytes, _)| bytes.div_ceil(UNIT)).sum();
            prop_assert_eq!(store.used(), units * UNIT);
        }

        #[test]
        fn a_full_store_says_so(bytes in 100usize..SUMMARY) {
            let side = Side::reserve(Arc::new(Linux::new()), 16 << 20).unwrap();
            let store = Store::default();
            let mut taken = 0;
            while store.take(&side, bytes).is_some() {
                taken += 1;
            }
            prop_assert!(taken * bytes <= side.summaries().1);
            prop_assert!((taken + 1) * bytes.next_multiple_of(UNIT) > side.summaries().1 - SUMMARY);
        }
    }
}
