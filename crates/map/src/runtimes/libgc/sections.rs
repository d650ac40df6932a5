//! libgc's list of heap sections (`GC_heap_sects`): pairs of an address and a size, one after the
//! other, of memory that the process has. They are the list if their sum is a variable too: the
//! heap's size (`GC_heapsize`), which stands in the same structure. Source: `include/private/gc_priv.h`
//! of bdwgc 7.4 to 8.2.

use crate::runtimes::process_words::{Ranges, Words, words_of};
use plimsoll_kernel::smaps::Addresses;
use std::collections::HashMap;

/// Bytes of a block: sections consist of whole ones.
pub(super) const BLOCK: u64 = 4096;
/// The most bytes of variables that are read.
const MAX_SEARCHED: u64 = 8 << 20;

/// The most sections of a heap.
const MAX_SECTIONS: usize = 1 << 16;

/// The most pairs that are looked at in all lists.
const MAX_PAIRS: usize = 1 << 20;

/// The heap, and the variables among which it was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Where the heap is, in the order of the list.
    pub(super) sections: Vec<Addresses>,
    /// The variables that are addresses of private memory.
    pub(super) pointers: Vec<u64>,
}

/// Finds the list. `size` is the heap's size if a symbol tells where that is: then no other sum counts.
pub(super) fn find(
    words: &Words,
    private: &Ranges,
    variables: &[Addresses],
    size: Option<u64>,
) -> Option<Found> {
    let mut all: Vec<u64> = Vec::new();
    for range in variables {
        let mut next = range.start;
        words.each(range, MAX_SEARCHED, &mut |at, [word]| {
            // Memory that is not resident interrupts a list.
            if at != next {
                all.push(u64::MAX);
            }
            next = at + 8;
            all.push(word);
            true
        });
        all.push(u64::MAX);
    }
    let mut values: HashMap<u64, usize> = HashMap::new();
    for &word in all.iter().filter(|&word| word % BLOCK == 0) {
        *values.entry(word).or_insert(0) += 1;
    }
    if let Some(size) = size {
        values.retain(|&value, _| value == size);
    }
    let mut pointers = all.clone();
    pointers.retain(|&word| word % 8 == 0 && private.has(word));
    pointers.sort_unstable();
    pointers.dedup();
    let mut best: (u64, Vec<Addresses>) = (0, Vec::new());
    let mut left = MAX_PAIRS;
    let mut offer = |list: (u64, Vec<Addresses>)| {
        if list.0 > best.0 && are_apart(&list.1) {
            best = list;
        }
    };
    // Up to 8.0 the list is a variable, later a variable points to it.
    for at in 0..all.len() {
        let pairs = all[at..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
        offer(list(pairs, private, &values, 1, &mut left));
    }
    for &pointer in &pointers {
        let pairs = (0..).map_while(|pair: u64| {
            let pair = words.bytes::<16>(pointer.checked_add(16 * pair)?)?;
            let [start, bytes] = words_of(&pair);
            Some((start, bytes))
        });
        offer(list(pairs, private, &values, 0, &mut left));
    }
    let (_, sections) = best;
    (!sections.is_empty()).then_some(Found { sections, pointers })
}

/// The sections that a list has, up to where their sum is a variable for the last time, and that sum.
/// If the list is among the variables, a size in it that equals the sum does not count: `own` is 1.
fn list(
    pairs: impl Iterator<Item = (u64, u64)>,
    private: &Ranges,
    values: &HashMap<u64, usize>,
    own: usize,
    left: &mut usize,
) -> (u64, Vec<Addresses>) {
    let mut sections: Vec<Addresses> = Vec::new();
    let mut sum = 0u64;
    let mut known = (0, 0);
    for (start, bytes) in pairs.take(MAX_SECTIONS.min(*left)) {
        *left -= 1;
        let Some(end) = start.checked_add(bytes) else {
            break;
        };
        let whole = start != 0 && bytes != 0 && start % BLOCK == 0 && bytes % BLOCK == 0;
        sum = sum.saturating_add(bytes);
        if !whole || sum > 1 << 47 || !private.have(&(start..end)) {
            break;
        }
        sections.push(start..end);
        let in_list = if sections.len() == 1 { own } else { 0 };
        if values.get(&sum).is_some_and(|&count| count > in_list) {
            known = (sum, sections.len());
        }
    }
    sections.truncate(known.1);
    (known.0, sections)
}

/// Whether no two sections overlap.
fn are_apart(sections: &[Addresses]) -> bool {
    let mut sorted: Vec<&Addresses> = sections.iter().collect();
    sorted.sort_unstable_by_key(|section| section.start);
    sorted.windows(2).all(|pair| pair[0].end <= pair[1].start)
}
