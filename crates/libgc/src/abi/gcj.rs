//! gc_gcj.h: objects whose first word points to a table that holds their descriptor, as in GNU's Java
//! compiler (gcj).

use crate::objects::allocate::allocate;
use crate::objects::debug::debug_allocate;
use crate::objects::kinds;
use crate::racy_cell::Variable;
use crate::start;
use libc::{c_char, c_int, c_void};
use plimsoll_heap::KindId;

/// The offset of the descriptor in the table, in bytes.
const OFFSET: usize = size_of::<usize>();

/// A descriptor of the indirect type: the real one is in the table that the first word points to
/// (gc_mark.h).
const INDIRECT: usize = (OFFSET + 0x10).wrapping_neg() & !3 | 3;

/// The environment passed to the procedure for objects with a debugging header.
const DEBUG: usize = 1;
#[unsafe(no_mangle)]
static GC_gcj_kind: Variable<c_int> = Variable::new(0);
#[unsafe(no_mangle)]
static GC_gcj_debug_kind: Variable<c_int> = Variable::new(0);

/// The program's descriptors name the procedure by its number, `index`, as if `GC_new_proc` had
/// added it.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init_gcj_malloc(index: c_int, procedure: *mut c_void) {
    let gc = start::lock();
    if GC_gcj_kind.get() == 0 {
        kinds::set_proc(index as usize, procedure);
        let kind = kinds::own_kind_without_size(gc.heap, INDIRECT);
        GC_gcj_kind.set(c_int::from(kind.0));
        let kind =
            kinds::own_kind_without_size(gc.heap, kinds::proc_descriptor(index as usize, DEBUG));
        GC_gcj_debug_kind.set(c_int::from(kind.0));
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_gcj_malloc(bytes: usize, table: *mut c_void) -> *mut c_void {
    let object: *mut *mut c_void = allocate(bytes, KindId(GC_gcj_kind.get() as u16)).cast();
    if !object.is_null() {
        // SAFETY: a new object of at least a word.
        unsafe { *object = table };
    }
    object.cast()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_gcj_malloc(
    bytes: usize,
    table: *mut c_void,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let kind = KindId(GC_gcj_debug_kind.get() as u16);
    let object: *mut *mut c_void = debug_allocate(bytes, kind, file, line).cast();
    if !object.is_null() {
        // SAFETY: a new object of at least a word.
        unsafe { *object = table };
    }
    object.cast()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_gcj_malloc_ignore_off_page(
    bytes: usize,
    table: *mut c_void,
) -> *mut c_void {
    GC_gcj_malloc(bytes, table)
}
