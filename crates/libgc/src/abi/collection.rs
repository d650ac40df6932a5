//! gc.h: collections that the program asks for, and incremental mode.

use crate::abi::variables::{GC_dont_gc, StopFunc};
use crate::{collect, heap, start, state};
use libc::c_int;

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcollect() {
    start::ensure();
    collect::by_request();
}

/// Also gives the heap's free memory back to the kernel. The default stop function is not called.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_gcollect_and_unmap() {
    start::ensure();
    collect::ask(None);
    collect::unmap();
}

/// Returns 1 if there was a collection, 0 if the stop function that is passed prevented it.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_try_to_collect(stop: Option<StopFunc>) -> c_int {
    start::ensure();
    c_int::from(collect::ask(stop))
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_disable() {
    let _guard = state::guard();
    GC_dont_gc.set(GC_dont_gc.get() + 1);
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_enable() {
    let _guard = state::guard();
    GC_dont_gc.set(GC_dont_gc.get() - 1);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_disabled() -> c_int {
    c_int::from(GC_dont_gc.get() != 0)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_enable_incremental() {
    collect::turn_incremental_on(&mut start::lock().collector);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_incremental_mode() -> c_int {
    c_int::from(heap::is_ready() && start::either().collector.is_incremental_on())
}

/// `GC_PROTECTS_NONE`: the kernel itself records writes, so no system call fails because a page is
/// write-protected.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// Does something in incremental mode only.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_collect_a_little() -> c_int {
    start::ensure();
    c_int::from(collect::do_some(false))
}

/// Does something in incremental mode only. If the collection is worth it, it is incremental, and its
/// steps are made by threads that allocate and by [`GC_collect_a_little`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_incremental_collection() {
    start::ensure();
    collect::do_some(true);
}
