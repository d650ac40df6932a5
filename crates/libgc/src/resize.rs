//! Objects made from others: resized objects, copies of strings; and aligned objects.

use crate::allocate::{allocate, allocate_held, extra};
use crate::kinds::{AUNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use crate::release::GC_free;
use crate::report;
use crate::settings::GC_oom_fn;
use crate::state;
use libc::{c_char, c_int, c_void};
use plimsoll_heap::{GRANULE, LARGEST_SMALL, SUPERPAGE};
use std::ptr::null_mut;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_realloc(
    object: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    if object.is_null() {
        return allocate(bytes, NORMAL);
    }
    if bytes == 0 {
        // SAFETY: the caller's promise.
        unsafe { GC_free(object) };
        return null_mut();
    }
    let heap = state::heap();
    let start = object as usize;
    let slot = heap.slot(start).filter(|&slot| heap.start(slot) == start);
    let Some(slot) = slot else {
        report::abort(c"GC_realloc of what is no object");
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
        GC_free(object);
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_strdup(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's string.
    unsafe { GC_strndup(text, libc::strlen(text)) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_strndup(text: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: the caller's string.
    let length = unsafe { libc::strnlen(text, most) };
    let copy: *mut c_char = allocate(length + 1, PTRFREE).cast();
    if copy.is_null() {
        // SAFETY: this thread's own error number.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return copy;
    }
    // SAFETY: a new object of this many bytes plus one.
    unsafe {
        copy.copy_from_nonoverlapping(text, length);
        *copy.add(length) = 0;
    }
    copy
}

/// From this alignment or size on, in bytes, an aligned block is an object of its own, and can be
/// resized or freed. As in libgc, half a page.
const WHOLE: usize = 2048;

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_memalign(alignment: usize, bytes: usize) -> *mut c_void {
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

/// Returns a part of a larger object. A reference to that part keeps all of the object alive.
fn aligned_inside(alignment: usize, bytes: usize) -> *mut c_void {
    let object = allocate(bytes.saturating_add(alignment - 1), NORMAL);
    if object.is_null() {
        return object;
    }
    (object as usize).next_multiple_of(alignment) as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    let object = GC_memalign(alignment, bytes);
    if object.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's.
    unsafe { *result = object };
    0
}
