//! Questions about objects and pointers, and checks of pointer arithmetic.

use crate::collector;
use crate::report;
use crate::settings::Variable;
use libc::{c_int, c_void};
use plimsoll_heap::{Heap, SUPERPAGE, Slot};

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
    report::complain(&format!(
        "GC_same_obj: {p:p} and {q:p} are not in the same object\n"
    ));
    report::abort(c"GC_same_obj test failed");
}

unsafe extern "C-unwind" fn not_valid(p: *mut c_void) {
    report::complain(&format!("GC_is_valid_displacement: {p:p} is not valid\n"));
    report::abort(c"GC_is_valid_displacement test failed");
}

unsafe extern "C-unwind" fn not_visible(p: *mut c_void) {
    report::complain(&format!("GC_is_visible: {p:p} is not visible\n"));
    report::abort(c"GC_is_visible test failed");
}

/// The object that an address is in, if it is in one: also where markers would not take it for a
/// reference, behind the first superpage of an object that was allocated so.
pub(crate) fn slot(address: *const c_void) -> Option<Slot> {
    let (heap, address) = (collector::made_heap()?, address as usize);
    heap.slot(address).or_else(|| behind_first(heap, address))
}

#[cold]
fn behind_first(heap: &Heap, address: usize) -> Option<Slot> {
    /// Superpages to look back: a gibibyte.
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

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_marked(object: *const c_void) -> c_int {
    c_int::from(slot(object).is_some_and(|slot| collector::heap().is_marked(slot)))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_mark_bit(object: *const c_void) {
    if let Some(slot) = slot(object) {
        collector::heap().set_mark(slot);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_mark_bit(object: *const c_void) {
    if let Some(slot) = slot(object) {
        collector::heap().clear_mark(slot);
    }
}

/// The caller holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_enumerate_reachable_objects_inner(visit: Visit, data: *mut c_void) {
    let gc = collector::held();
    let heap = gc.heap;
    heap.each_marked(&gc.central, |slot| {
        // SAFETY: what the caller asks for.
        unsafe { visit(heap.start(slot) as *mut c_void, heap.size(slot), data) };
    });
}

/// Says so where two pointers are not into the same object; where the first is into none, both must
/// be into none.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_same_obj(p: *mut c_void, q: *mut c_void) -> *mut c_void {
    collector::heap();
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

/// Every displacement is valid. As the other checks it makes the collector, if there is none.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_is_valid_displacement(p: *mut c_void) -> *mut c_void {
    collector::heap();
    p
}

/// Whether collections see what is at `p`, which is what libgc says of any place outside of the
/// heap, where it may be on some thread's stack: only a place in the heap and in no object is not
/// seen.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_is_visible(p: *mut c_void) -> *mut c_void {
    let heap = collector::heap();
    if slot(p).is_none() && heap.range().contains(&(p as usize)) {
        // SAFETY: the program's procedure, or ours.
        unsafe { (GC_is_visible_print_proc.get())(p) };
    }
    p
}

/// Free places are not in lists here: they are runs of bits.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_print_free_list(kind: c_int, granules: usize) {
    report::print(&format!(
        "Free places of kind {kind} with {granules} granules are not in a list\n"
    ));
}
