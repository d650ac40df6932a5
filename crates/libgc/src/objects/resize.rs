//! Objects made from others: resized and aligned objects.

use super::allocate::{allocate, allocate_held, extra};
use super::kinds::{AUNCOLLECTABLE, NORMAL, UNCOLLECTABLE};
use super::release::free;
use crate::abi::variables::GC_oom_fn;
use crate::{diagnostics, start};
use libc::c_void;
use plimsoll_heap::{GRANULE, LARGEST_SMALL, SUPERPAGE};
use std::ptr::null_mut;

/// As `GC_realloc`.
///
/// # Safety
/// The caller does not use the object any more.
#[inline(always)]
pub(crate) unsafe fn realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if object.is_null() {
        return allocate(bytes, NORMAL);
    }
    if bytes == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(start::heap(), object) };
        return null_mut();
    }
    let heap = start::heap();
    let start = object as usize;
    let slot = heap.slot(start).filter(|&slot| heap.start(slot) == start);
    let Some(slot) = slot else {
        diagnostics::abort(c"GC_realloc of what is no object");
    };
    let size = heap.size(slot) - extra();
    if bytes <= size && bytes * 2 >= size {
        // The rest of the slot may have held references.
        // SAFETY: inside of the object.
        unsafe { libc::memset((start + bytes) as *mut c_void, 0, size - bytes) };
        return object;
    }
    let kind = heap.kind_of(slot);
    let new = match kind {
        UNCOLLECTABLE | AUNCOLLECTABLE => allocate_held(bytes, kind),
        _ => allocate(bytes, kind),
    };
    if new.is_null() {
        return new;
    }
    // SAFETY: both are objects of at least this many bytes; the old one is not used any more.
    unsafe {
        libc::memcpy(new, object, bytes.min(size));
        free(heap, object);
    }
    new
}

/// Returns a part of a larger object. A reference to that part keeps all of the object alive.
fn aligned_inside(alignment: usize, bytes: usize) -> *mut c_void {
    let object = allocate(bytes.saturating_add(alignment - 1), NORMAL);
    if object.is_null() {
        return object;
    }
    (object as usize).next_multiple_of(alignment) as *mut c_void
}

/// From this alignment or size on, in bytes, an aligned block is an object of its own, and can be
/// resized or freed. As in libgc, half a page.
const WHOLE: usize = 2048;

/// As `GC_memalign`.
pub(crate) fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    if alignment <= GRANULE {
        return allocate(bytes, NORMAL);
    }
    if alignment > SUPERPAGE {
        if alignment > 1 << 20 {
            return (GC_oom_fn.get())(bytes);
        }
        return aligned_inside(alignment, bytes);
    }
    if alignment < WHOLE && bytes < WHOLE {
        return aligned_inside(alignment, bytes);
    }
    // Slots whose size is a power of two are aligned to it, and larger objects start at superpages.
    let whole = bytes.saturating_add(extra()).max(alignment);
    let slot = match whole.checked_next_power_of_two() {
        Some(slot) if slot <= LARGEST_SMALL => slot,
        _ => whole.max(LARGEST_SMALL + 1),
    };
    allocate(slot - extra(), NORMAL)
}
