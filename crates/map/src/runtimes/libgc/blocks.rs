//! Which blocks of libgc's heap are free. Each block has a header, which an index of two levels
//! leads to. Its lower level (`bottom_index`) knows which part of the address space it is for, and the
//! header of a block in use knows its block: both are checked. Source: `include/private/gc_hdrs.h`
//! and `gc_priv.h` of bdwgc 7.4 to 8.2.

use super::sections::{BLOCK, Found};
use crate::runtimes::process_words::{Ranges, Words, words_of};
use plimsoll_kernel::smaps::Addresses;
use std::collections::HashMap;

/// Entries of a lower index.
const ENTRIES: u64 = 1024;
/// Bytes of addresses that one lower index is for.
const PART: u64 = ENTRIES * BLOCK;
/// In a header: the block is free.
const FREE: u64 = 4;
/// The most lower indices that are read: a heap of 64 GiB.
const MAX_INDICES: usize = 16_384;
/// The most pointers that are followed to find them.
const MAX_FOLLOWED: usize = 1 << 20;
/// The most blocks whose headers are looked up: 32 GiB.
const MAX_BLOCKS: u64 = 8 << 20;

/// The free blocks, as far as known.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Free ones, each with its neighbours that belong to it.
    pub(super) blocks: Vec<Addresses>,
    /// Bytes of blocks that may be free or in use.
    pub(super) unread: u64,
}

pub(super) fn free(words: &Words, found: &Found) -> Free {
    let indices = indices(words, found);
    let mut free = Free::default();
    let mut left = MAX_BLOCKS;
    // A free range may reach from one section into the next.
    for section in Ranges::from(found.sections.clone()).iter() {
        let mut at = section.start;
        while at < section.end {
            if left == 0 {
                free.unread += section.end - at;
                break;
            }
            left -= 1;
            let Some(index) = indices.get(&(at / PART)) else {
                let next = ((at / PART + 1) * PART).min(section.end);
                free.unread += next - at;
                at = next;
                continue;
            };
            at = match header(words, *index, at) {
                Header::Free(bytes) if bytes <= section.end - at => {
                    free.blocks.push(at..at + bytes);
                    at + bytes
                }
                Header::Used | Header::Free(_) => at + BLOCK,
                Header::Unread => {
                    free.unread += BLOCK;
                    at + BLOCK
                }
            };
        }
    }
    free
}

enum Header {
    /// The block begins a free range of this many bytes.
    Free(u64),
    /// It holds objects, or is a part of what another header describes.
    Used,
    Unread,
}

fn header(words: &Words, index: u64, block: u64) -> Header {
    let place = index.saturating_add(block / BLOCK % ENTRIES * 8);
    let Some(header) = words.word(place) else {
        return Header::Unread;
    };
    // Small numbers say how far before this block its header's block is.
    if header < BLOCK {
        return Header::Used;
    }
    let Some(bytes) = words.bytes::<40>(header) else {
        return Header::Unread;
    };
    // A free block's header may name another block: the one that it had before.
    let [next, previous, _of, flags, size] = words_of(&bytes);
    let is_linked = next % BLOCK == 0 && previous % BLOCK == 0;
    let is_free = is_linked && (flags >> 8) & FREE != 0 && size != 0 && size % BLOCK == 0;
    if is_free {
        Header::Free(size)
    } else {
        Header::Used
    }
}

/// The lower indices, by the part of the address space that they are for: those that variables
/// point to, and those that these lead to.
fn indices(words: &Words, found: &Found) -> HashMap<u64, u64> {
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    for section in &found.sections {
        let mut part = section.start / PART;
        while part * PART < section.end && wanted.len() < MAX_INDICES {
            wanted.insert(part, 0);
            part += 1;
        }
    }
    let mut missing = wanted.len();
    let mut left = MAX_FOLLOWED;
    for &pointer in &found.pointers {
        let mut at = pointer;
        while missing > 0 && left > 0 {
            let end = at.saturating_add(ENTRIES * 8);
            let Some(bytes) = words.bytes::<32>(end) else {
                break;
            };
            let [ascending, _descending, key, _next] = words_of(&bytes);
            left -= 1;
            match wanted.get_mut(&key) {
                Some(index) if *index == 0 && is_index(words, at, key) => {
                    *index = at;
                    missing -= 1;
                }
                None if is_linked(words, at) => {}
                _ => break,
            }
            at = ascending;
        }
    }
    wanted.retain(|_, index| *index != 0);
    wanted
}

/// Whether this is a lower index: a neighbour in the list of all lower indices knows it, or it leads
/// to a header that knows its block. Headers of free blocks do not know theirs.
fn is_index(words: &Words, index: u64, key: u64) -> bool {
    let mut entries = (0..ENTRIES).filter_map(|entry| {
        let header = words.word(index.checked_add(entry * 8)?)?;
        let block = key.checked_mul(PART)?.checked_add(entry * BLOCK)?;
        (header >= BLOCK).then_some((header, block))
    });
    is_linked(words, index)
        || entries.by_ref().take(16).any(|(header, block)| {
            header.checked_add(16).and_then(|at| words.word(at)) == Some(block)
        })
}

/// Whether the next lower index, or the one before, links back to this one.
fn is_linked(words: &Words, index: u64) -> bool {
    let link = |at: u64, offset: u64| words.word(at.checked_add(ENTRIES * 8 + offset)?);
    let is_linked = |there: u64, back: u64| {
        link(index, there).is_some_and(|other| other != 0 && link(other, back) == Some(index))
    };
    is_linked(0, 8) || is_linked(8, 0)
}
