//! Giving objects back by hand.

use crate::collector;
use crate::settings::GC_non_gc_bytes;
use crate::thread::current;
use crate::{leaks, report};
use libc::c_void;
use plimsoll_heap::{Class, Slot};
use std::sync::atomic::Ordering::Relaxed;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let heap = collector::heap();
    let start = object as usize;
    let slot = heap.slot(start).filter(|&slot| heap.start(slot) == start);
    let Some(slot) = slot else {
        report::warn(c"Freed what is no object: %p\n", start);
        return;
    };
    if leaks::wanted() {
        leaks::forget(start);
    }
    // SAFETY: the caller does not use it any more.
    unsafe { free_slot(slot, start) };
}

unsafe fn free_slot(slot: Slot, start: usize) {
    let heap = collector::heap();
    let kind = heap.kind_of(slot);
    let bytes = heap.size(slot);
    if heap.is_uncollectable(slot) {
        GC_non_gc_bytes.add(bytes.wrapping_neg());
    }
    if heap.is_large(slot) {
        let mut gc = collector::lock();
        gc.stats.freed += bytes;
        // SAFETY: the caller's promise.
        unsafe { heap.free_large(&mut gc.central, slot) };
        return;
    }
    let Some(class) = Class::of(bytes) else {
        return;
    };
    // SAFETY: this thread's own.
    match unsafe { current::get().as_mut() } {
        Some(thread) => {
            thread.enter_bins();
            // SAFETY: the caller's promise; kind and class are the slot's.
            unsafe { heap.free(thread.bins.bin(kind, class), start) };
            thread
                .freed
                .store(thread.freed.load(Relaxed) + bytes, Relaxed);
            thread.leave_bins();
        }
        None => {
            let mut gc = collector::lock();
            gc.stats.freed += bytes;
            // SAFETY: as above.
            unsafe { heap.free(gc.spare.get_or_insert_default().bin(kind, class), start) };
        }
    }
}
