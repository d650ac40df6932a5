//! gc.h and gc_mark.h: roots that the program adds and excludes.

use crate::abi::collection::{GC_disable, GC_enable};
use crate::roots::{HAS_ROOTS, HasRoots, early};
use crate::{heap, start, state};
use libc::{c_char, c_int, c_void};
use std::ops::Range;

const WORD: usize = size_of::<usize>();

fn range(low: *mut c_void, high: *mut c_void) -> Range<usize> {
    (low as usize).next_multiple_of(WORD)..high as usize / WORD * WORD
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !range.is_empty() {
        let mut gc = start::lock();
        if !gc.program.roots.added.contains(&range) {
            gc.program.roots.added.push(range);
        }
    }
}

/// Removes added ranges that lie inside this one, as libgc does.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !heap::is_ready() {
        return;
    }
    let inside = |added: &Range<usize>| added.start >= range.start && added.end <= range.end;
    start::lock()
        .program
        .roots
        .added
        .retain(|added| !inside(added));
}

/// As with libgc, the next collection finds the loaded objects again.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_roots() {
    let mut gc = start::lock();
    gc.program.roots.added.clear();
    gc.program.roots.loaded.clear();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if range.is_empty() {
        return;
    }
    let _guard = state::guard();
    if heap::is_ready() {
        start::held().program.roots.excluded.push(range);
    } else {
        early(|early| early.push(range));
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_exclusion_table() {
    let _guard = state::guard();
    if heap::is_ready() {
        start::held().program.roots.excluded.clear();
    } else {
        early(Vec::clear);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_has_static_roots_callback(callback: Option<HasRoots>) {
    HAS_ROOTS.set(callback);
}

/// Whether an address lies in a root range that the loader's list added and may remove.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_tmp_root(address: *mut c_void) -> c_int {
    let holds = |range: &Range<usize>| range.contains(&(address as usize));
    c_int::from(heap::is_ready() && start::either().program.roots.loaded.iter().any(holds))
}

/// Like `dlopen`, but no collection runs meanwhile: a collection needs the loader's lock, which may
/// be held until the library is loaded.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    unsafe extern "C-unwind" {
        /// Runs the library's constructors, which may throw.
        fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    }
    struct Enable;
    impl Drop for Enable {
        fn drop(&mut self) {
            GC_enable();
        }
    }
    GC_disable();
    let _enable = Enable;
    // SAFETY: the caller's arguments.
    unsafe { dlopen(path, mode) }
}
