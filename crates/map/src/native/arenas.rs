//! Heaps of the C library's arenas (glibc's `malloc/arena.c`), by their heads. Each begins at a multiple
//! of 64 MiB and is at most 64 MiB long. One that is full has nothing reserved behind it, and then the
//! kernel joins it with the next one.

use super::ARENA;
use crate::area::Kind;
use crate::labels::Labels;
use crate::memory::Memory;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area};

/// An arena's own data lies at most this far behind the head of its first heap, bytes.
const NEAR: u64 = 4096;

/// `struct _heap_info`, the first words of a heap.
struct Head {
    /// The arena that it belongs to; right behind the head of that arena's first heap.
    arena: u64,
    /// The arena's heap before this one, or 0.
    before: u64,
    /// Bytes in use, from the head on.
    size: u64,
    /// Bytes that can be written, from the head on.
    writable: u64,
}

impl Head {
    fn read(at: u64, memory: &dyn Memory) -> Option<Head> {
        let mut bytes = [0; 32];
        memory.read(at, &mut bytes).ok()?;
        let word = |index: usize| {
            let word = bytes[index * 8..index * 8 + 8].try_into();
            word.map_or(0, u64::from_ne_bytes)
        };
        Some(Head {
            arena: word(0),
            before: word(1),
            size: word(2),
            writable: word(3),
        })
    }

    /// Whether all of it is as in a heap that begins at `at`.
    fn is_of(&self, at: u64) -> bool {
        let whole = |bytes: u64| bytes > 0 && bytes <= ARENA && bytes.is_multiple_of(page_size());
        let first = self.arena / ARENA * ARENA;
        let is_near = (1..NEAR).contains(&(self.arena - first)) && self.arena.is_multiple_of(8);
        let is_first = self.before == 0 && first == at;
        let follows = self.before != 0 && self.before.is_multiple_of(ARENA) && first != at;
        let sizes = whole(self.size) && whole(self.writable) && self.size <= self.writable;
        is_near && sizes && (is_first || follows) && self.before != at
    }
}

/// Labels the heaps in a mapping; looks at no more than `most` places. Returns at how many it looked.
pub(super) fn label(
    area: &Addresses,
    memory: &dyn Memory,
    most: usize,
    labels: &mut Labels,
) -> usize {
    let first = area.start.next_multiple_of(ARENA);
    let places = (first..area.end).step_by(ARENA as usize).take(most);
    let mut looked = 0;
    for at in places {
        looked += 1;
        let head = Head::read(at, memory).filter(|head| head.is_of(at));
        if let Some(head) = head.filter(|head| head.writable <= area.end - at) {
            labels.add(at..at + head.writable, Kind::Malloc);
        }
    }
    looked
}

/// Whether a mapping is a heap by its place alone: it begins at a multiple of 64 MiB and what is left
/// until the next one is reserved. Its head may be in swap.
pub(super) fn is_one(area: &Area, after: Option<&Area>) -> bool {
    let start = area.addresses.start;
    let closed = |after: &Area| !after.readable && !after.writable && super::is_plain(after);
    area.writable
        && !area.shared_mapping
        && start.is_multiple_of(ARENA)
        && area.size() <= ARENA
        && after.is_some_and(|after| closed(after) && after.addresses.end == start + ARENA)
}
