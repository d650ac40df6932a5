//! gc.h, gc_inline.h and gc_mark.h: allocating, resizing and freeing objects.

use crate::objects::allocate::{allocate, allocate_held, allocate_slowly, extra};
use crate::objects::kinds::{AUNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use crate::objects::{release, resize};
use crate::{diagnostics, start};
use libc::{c_char, c_int, c_void};
use plimsoll_heap::{GRANULE, KindId, LARGEST_SMALL};
use std::ptr::null_mut;

macro_rules! allocators {
    ($($name:ident => $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name(bytes: usize) -> *mut c_void {
            allocate(bytes, $kind)
        }
    )*};
}

allocators! {
    GC_malloc => NORMAL;
    GC_malloc_atomic => PTRFREE;
    GC_malloc_stubborn => NORMAL;
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_uncollectable(bytes: usize) -> *mut c_void {
    allocate_held(bytes, UNCOLLECTABLE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_atomic_uncollectable(bytes: usize) -> *mut c_void {
    allocate_held(bytes, AUNCOLLECTABLE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_ignore_off_page(bytes: usize) -> *mut c_void {
    ignore_off_page(bytes, NORMAL)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_atomic_ignore_off_page(bytes: usize) -> *mut c_void {
    ignore_off_page(bytes, PTRFREE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_generic_malloc_ignore_off_page(bytes: usize, kind: c_int) -> *mut c_void {
    ignore_off_page(bytes, KindId(kind as u16))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_generic_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    allocate(bytes, KindId(kind as u16))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_kind(bytes: usize, kind: c_int) -> *mut c_void {
    allocate(bytes, KindId(kind as u16))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_kind_global(bytes: usize, kind: c_int) -> *mut c_void {
    allocate(bytes, KindId(kind as u16))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_generic_or_special_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    match KindId(kind as u16) {
        kind @ (UNCOLLECTABLE | AUNCOLLECTABLE) => allocate_held(bytes, kind),
        kind => allocate(bytes, kind),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_generic_malloc_uncollectable(bytes: usize, kind: c_int) -> *mut c_void {
    match KindId(kind as u16) {
        PTRFREE | AUNCOLLECTABLE => allocate_held(bytes, AUNCOLLECTABLE),
        NORMAL | UNCOLLECTABLE => allocate_held(bytes, UNCOLLECTABLE),
        _ => diagnostics::unsupported(
            "GC_generic_malloc_uncollectable",
            "uncollectable objects of a program's own kind",
        ),
    }
}

/// Returns several zeroed objects, linked through their first words; null without memory. They have
/// the requested size, without the extra byte.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_generic_malloc_many(
    bytes: usize,
    kind: c_int,
    result: *mut *mut c_void,
) {
    // SAFETY: the caller's.
    unsafe { *result = many(bytes.saturating_sub(extra()), KindId(kind as u16)) };
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_many(bytes: usize) -> *mut c_void {
    many(bytes, NORMAL)
}

/// Does nothing: stacks need no clearing, because memory is zeroed when it is allocated.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_stack(argument: *mut c_void) -> *mut c_void {
    argument
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_noop1(word: usize) {
    std::hint::black_box(word);
}

/// Does nothing: a word that points anywhere into an object counts as a reference to it.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_displacement(_: usize) {}

macro_rules! no_barriers {
    ($($name:ident)*) => {$(
        /// There is no write barrier: the kernel tracks writes, or nothing does.
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(_: *const c_void) {}
    )*};
}

no_barriers! { GC_change_stubborn GC_end_stubborn_change }

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_ptr_store_and_dirty(place: *mut c_void, value: *const c_void) {
    // SAFETY: the caller's.
    unsafe { *place.cast::<*const c_void>() = value };
}

fn many(bytes: usize, kind: KindId) -> *mut c_void {
    /// libgc returns about a page's worth.
    const WORTH: usize = 4096;
    let count = (WORTH / bytes.next_multiple_of(GRANULE).max(GRANULE)).max(1);
    // The objects' addresses stay on this stack, so that they stay alive: a collection in between
    // does not follow links in objects without references.
    let mut all = [null_mut(); WORTH / GRANULE];
    let all = &mut all[..count];
    all.fill_with(|| allocate(bytes, kind));
    let mut list: *mut c_void = null_mut();
    for &object in all.iter().filter(|object| !object.is_null()) {
        // SAFETY: a new object of at least a word.
        unsafe { *object.cast::<*mut c_void>() = list };
        list = object;
    }
    list
}

fn ignore_off_page(bytes: usize, kind: KindId) -> *mut c_void {
    if bytes.saturating_add(extra()) <= LARGEST_SMALL {
        allocate(bytes, kind)
    } else {
        allocate_slowly(bytes, kind, true)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_free(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: the caller's promise.
        unsafe { release::free(start::heap(), object) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { resize::realloc(object, bytes) }
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

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    resize::memalign(alignment, bytes)
}
