//! The object that an address points into.

use crate::heap;
use libc::c_void;
use plimsoll_heap::{Heap, SUPERPAGE, Slot};

/// The object that an address points into, if any. This includes addresses that markers ignore:
/// those beyond the first superpage of an object whose later superpages do not count.
pub(crate) fn slot(address: *const c_void) -> Option<Slot> {
    let (heap, address) = (heap::made()?, address as usize);
    heap.slot(address).or_else(|| behind_first(heap, address))
}

#[cold]
fn behind_first(heap: &Heap, address: usize) -> Option<Slot> {
    /// How many superpages to search backwards: one GiB.
    const FAR: usize = (1 << 30) / SUPERPAGE;
    let range = heap.range();
    if !range.contains(&address) {
        return None;
    }
    let mut at = address / SUPERPAGE * SUPERPAGE;
    for _ in 0..FAR {
        at = at.checked_sub(SUPERPAGE).filter(|&at| at >= range.start)?;
        if let Some(slot) = heap.slot(at) {
            return (address < heap.start(slot) + heap.size(slot)).then_some(slot);
        }
    }
    None
}
