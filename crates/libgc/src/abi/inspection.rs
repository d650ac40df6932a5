//! gc.h and gc_mark.h: queries about objects and pointers, and checks of pointer arithmetic.

use crate::objects::inspect::slot;
use crate::output;
use crate::racy_cell::Variable;
use crate::{diagnostics, start};
use libc::{c_int, c_void};
use plimsoll_heap::Bins;
use std::ptr::null_mut;

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_base(address: *mut c_void) -> *mut c_void {
    slot(address).map_or(null_mut(), |slot| start::heap().start(slot) as *mut c_void)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_size(object: *const c_void) -> usize {
    slot(object).map_or(0, |slot| start::heap().size(slot))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_heap_ptr(address: *const c_void) -> c_int {
    c_int::from(slot(address).is_some())
}

type OnTwo = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);
type OnOne = unsafe extern "C-unwind" fn(*mut c_void);
type Visit = unsafe extern "C-unwind" fn(*mut c_void, usize, *mut c_void);
#[unsafe(no_mangle)]
static GC_same_obj_print_proc: Variable<OnTwo> = Variable::new(not_same);
#[unsafe(no_mangle)]
static GC_is_valid_displacement_print_proc: Variable<OnOne> = Variable::new(not_valid);
#[unsafe(no_mangle)]
static GC_is_visible_print_proc: Variable<OnOne> = Variable::new(not_visible);

unsafe extern "C-unwind" fn not_same(p: *mut c_void, q: *mut c_void) {
    output::complain(&format!(
        "GC_same_obj: {p:p} and {q:p} are not in the same object\n"
    ));
    diagnostics::abort(c"GC_same_obj test failed");
}

unsafe extern "C-unwind" fn not_valid(p: *mut c_void) {
    output::complain(&format!("GC_is_valid_displacement: {p:p} is not valid\n"));
    diagnostics::abort(c"GC_is_valid_displacement test failed");
}

unsafe extern "C-unwind" fn not_visible(p: *mut c_void) {
    output::complain(&format!("GC_is_visible: {p:p} is not visible\n"));
    diagnostics::abort(c"GC_is_visible test failed");
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_marked(object: *const c_void) -> c_int {
    c_int::from(slot(object).is_some_and(|slot| start::heap().is_marked(slot)))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_mark_bit(object: *const c_void) {
    if let Some(slot) = slot(object) {
        start::heap().set_mark(slot);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_mark_bit(object: *const c_void) {
    if let Some(slot) = slot(object) {
        start::heap().clear_mark(slot);
    }
}

/// The caller holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_enumerate_reachable_objects_inner(visit: Visit, data: *mut c_void) {
    let gc = start::held();
    let heap = gc.heap;
    heap.each_marked(&gc.collector.central, |slot| {
        let is_held = |bins: &Bins| bins.holds(heap, slot);
        if gc.program.unknown.bins().is_some_and(is_held) || gc.program.threads.any_bins(is_held) {
            return;
        }
        // SAFETY: what the caller asks for.
        unsafe { visit(heap.start(slot) as *mut c_void, heap.size(slot), data) };
    });
}

/// Calls the program's procedure if two pointers do not point into the same object. If the first
/// points into no object, neither may the second.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_same_obj(p: *mut c_void, q: *mut c_void) -> *mut c_void {
    start::heap();
    if slot(p) != slot(q) {
        // SAFETY: the program's procedure, or ours.
        unsafe { (GC_same_obj_print_proc.get())(p, q) };
    }
    p
}

unsafe fn moved(place: *mut *mut c_void, by: isize) -> (*mut c_void, *mut c_void) {
    // SAFETY: the caller's place.
    unsafe {
        let old = *place;
        let new = GC_same_obj(old.wrapping_byte_offset(by), old);
        *place = new;
        (old, new)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pre_incr(place: *mut *mut c_void, by: isize) -> *mut c_void {
    // SAFETY: the caller's place.
    unsafe { moved(place, by).1 }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_post_incr(place: *mut *mut c_void, by: isize) -> *mut c_void {
    // SAFETY: the caller's place.
    unsafe { moved(place, by).0 }
}

/// Every displacement is valid. Like the other checks, this makes the collector if there is none.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_is_valid_displacement(p: *mut c_void) -> *mut c_void {
    start::heap();
    p
}

/// Whether collections scan the place `p`. As in libgc, this is assumed of any place outside the
/// heap, because it may be on a thread's stack. Only a place in the heap that belongs to no object
/// is not scanned.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_is_visible(p: *mut c_void) -> *mut c_void {
    let heap = start::heap();
    if slot(p).is_none() && heap.range().contains(&(p as usize)) {
        // SAFETY: the program's procedure, or ours.
        unsafe { (GC_is_visible_print_proc.get())(p) };
    }
    p
}

/// There are no free lists here: free slots are runs of bits.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_print_free_list(kind: c_int, granules: usize) {
    output::print(&format!(
        "Free places of kind {kind} with {granules} granules are not in a list\n"
    ));
}
