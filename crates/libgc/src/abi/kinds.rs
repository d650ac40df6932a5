//! gc_mark.h: kinds of objects, mark procedures, and references that these report.

use crate::objects::inspect;
use crate::objects::kinds::{self, Describe, Entry, MarkProc, marker};
use crate::start;
use libc::{c_int, c_uint, c_void};
use std::sync::atomic::AtomicUsize;

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_kind(
    _: *mut *mut c_void,
    descriptor: usize,
    adds_size: c_int,
    clears: c_int,
) -> c_uint {
    kinds::new_kind(start::lock().heap, descriptor, adds_size, clears)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_kind_inner(
    _: *mut *mut c_void,
    descriptor: usize,
    adds_size: c_int,
    clears: c_int,
) -> c_uint {
    kinds::new_kind(start::held().heap, descriptor, adds_size, clears)
}

/// Programs pass the result to `GC_new_kind`. It is a dummy: free slots are found in bins here.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_free_list() -> *mut *mut c_void {
    GC_new_free_list_inner()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_free_list_inner() -> *mut *mut c_void {
    static NONE: AtomicUsize = AtomicUsize::new(0);
    (&raw const NONE).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_proc(procedure: MarkProc) -> c_uint {
    GC_new_proc_inner(procedure)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_mark_and_push(
    object: *mut c_void,
    top: *mut Entry,
    _: *mut Entry,
    _: *mut *mut c_void,
) -> *mut Entry {
    marker(|marker| marker.word(object as usize));
    top
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_push_all(low: *mut c_void, high: *mut c_void) {
    // SAFETY: memory that the program vouches for.
    marker(|marker| unsafe { marker.span(low as usize, high as usize) });
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_push_all_eager(low: *mut c_void, high: *mut c_void) {
    // SAFETY: as above.
    unsafe { GC_push_all(low, high) };
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_push_conditional(low: *mut c_void, high: *mut c_void, _: c_int) {
    // SAFETY: as above.
    unsafe { GC_push_all(low, high) };
}

/// There is nothing to push: what the tables of finalizers refer to is marked later.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_push_finalizer_structures() {}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_kind_and_size(object: *const c_void, size: *mut usize) -> c_int {
    let Some(slot) = inspect::slot(object) else {
        return -1;
    };
    let heap = start::heap();
    // SAFETY: the caller's, where it is not null.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = heap.size(slot);
    }
    c_int::from(heap.kind_of(slot).0)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_new_proc_inner(procedure: MarkProc) -> c_uint {
    kinds::add_proc(procedure) as c_uint
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_describe_type_fn(kind: c_int, describe: Option<Describe>) {
    kinds::set_describer(kind as usize, describe);
}
