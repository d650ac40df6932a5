//! A table that says where the heap is, for tools that look from outside: `plimsoll
//! map` finds it by its name among the library's exported symbols.

use plimsoll_heap::{Heap, SUPERPAGE};
use std::sync::atomic::{AtomicUsize, Ordering::Release};

/// Eight words: what identifies the table, its version, the addresses of [`plimsoll_heap::Places`],
/// and bytes of a superpage. All zero until there is a heap; the first word is written last.
#[repr(C)]
struct Table([AtomicUsize; 8]);

/// The first word.
const MAGIC: usize = usize::from_le_bytes(*b"plimsoll");

/// The second word: it changes when the meaning of the words does.
const VERSION: usize = 1;
#[unsafe(no_mangle)]
static plimsoll_gc_places: Table = Table([const { AtomicUsize::new(0) }; 8]);

/// Fills the table.
pub(crate) fn tell(heap: &Heap) {
    let places = heap.places();
    let words = [
        MAGIC,
        VERSION,
        places.metadata,
        places.heap,
        places.end,
        places.free,
        places.committed,
        SUPERPAGE,
    ];
    for (place, word) in plimsoll_gc_places.0.iter().zip(words).rev() {
        place.store(word, Release);
    }
}
