//! gc.h: the beginning and the end, and the allocation lock.

use crate::lock::{self, LOCK};
use crate::state::{Guard, Lent};
use crate::{heap, start};
use libc::{c_int, c_void};

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init() {
    drop(start::lock());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_init_called() -> c_int {
    c_int::from(heap::is_ready())
}

/// libgc stops its threads here. There is nothing to do: all of ours end with the process.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_deinit() {}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_alloc_lock() {
    LOCK.lock();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_alloc_unlock() {
    lock::unlock();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_alloc_lock(
    function: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> *mut c_void {
    LOCK.lock();
    let _guard = Guard::of_taken_lock();
    let _lent = Lent::begin();
    // SAFETY: what the caller asks for.
    unsafe { function(argument) }
}
