//! The list of all arenas (`mheap_.heapArenas`): a slice of their numbers. An arena without a page in
//! use has no span. The list is recognised by its contents: it has the arena of each span, and the
//! process has all of its arenas. Source: `runtime/mheap.go`, `runtime/malloc.go` (`arenaIndex`).

use super::ARENA;
use super::spans::Span;
use crate::runtimes::process_words::{Ranges, Words};
use plimsoll_kernel::smaps::Addresses;
use std::collections::BTreeSet;

/// The offset that is added to an address before it is divided by an arena's size: on x86-64, where
/// addresses have a sign, and elsewhere.
const OFFSETS: [u64; 2] = [1 << 47, 0];
/// The most arenas: 4 TiB.
const MAX_ARENAS: u64 = 1 << 16;
/// The most bytes of variables that are searched.
const MAX_SEARCHED: u64 = 64 << 20;
/// The most entries of wrong lists that are read.
const MAX_ENTRIES: u64 = 1 << 20;

/// The arenas, in units of their size, by address; of an incomplete list those that spans are in.
pub(super) fn find(
    words: &Words,
    allocated: &Ranges,
    variables: &[Addresses],
    spans: &[Span],
) -> BTreeSet<u64> {
    let mut known = BTreeSet::new();
    for span in spans {
        known.extend(span.addresses.start / ARENA..=(span.addresses.end - 1) / ARENA);
    }
    let mut best = known.clone();
    let mut left = MAX_ENTRIES;
    for range in variables {
        words.each(range, MAX_SEARCHED, &mut |_, [list, length, capacity]| {
            let plausible = length <= capacity && length <= MAX_ARENAS && capacity < 1 << 32;
            let longer = length > best.len() as u64;
            if plausible && longer && list % 8 == 0 && allocated.has(list) {
                for offset in OFFSETS {
                    let found = read(words, allocated, (list, length), offset, &mut left);
                    if found.len() > best.len() && known.is_subset(&found) {
                        best = found;
                    }
                }
            }
            true
        });
    }
    best
}

/// The arenas in a list, given with its length, up to the first entry that is none.
fn read(
    words: &Words,
    allocated: &Ranges,
    (list, length): (u64, u64),
    offset: u64,
    left: &mut u64,
) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for entry in 0..length {
        if *left == 0 {
            break;
        }
        *left -= 1;
        let number = words.word(list.saturating_add(8 * entry));
        let Some(arena) = number.and_then(|number| number.checked_sub(offset / ARENA)) else {
            break;
        };
        let Some(start) = arena.checked_mul(ARENA).filter(|start| start >> 56 == 0) else {
            break;
        };
        if allocated.within(&(start..start + ARENA)).next().is_none() {
            break;
        }
        found.insert(arena);
    }
    found
}
