//! Freeing objects explicitly.

use crate::collector;
use crate::settings::GC_non_gc_bytes;
use crate::thread::current;
use crate::{leaks, report};
use libc::c_void;
use plimsoll_heap::{Class, KindId, Slot};
use std::sync::atomic::Ordering::Relaxed;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let heap = collector::heap();
    let start = object as usize;
    let slot = heap.slot(start).filter(|&slot| heap.start(slot) == start);
    if leaks::wanted() {
        leaks::forget(start);
    }
    // SAFETY: the caller does not use it any more.
    if !slot.is_some_and(|slot| unsafe { free_slot(slot) }) {
        report::warn(c"Freed what is no object, or was freed before: %p\n", start);
    }
}

/// Frees the object in a slot. False if there is none.
unsafe fn free_slot(slot: Slot) -> bool {
    let heap = collector::heap();
    let kind = heap.kind_of(slot);
    let bytes = heap.size(slot);
    let held = heap.is_uncollectable(slot);
    // SAFETY: the caller's promise.
    let freed = unsafe { free_of_size(slot, kind, bytes) };
    if freed && held {
        GC_non_gc_bytes.add(bytes.wrapping_neg());
    }
    freed
}

unsafe fn free_of_size(slot: Slot, kind: KindId, bytes: usize) -> bool {
    let heap = collector::heap();
    if heap.is_large(slot) {
        let mut gc = collector::lock();
        gc.unknown.forget(heap.start(slot));
        gc.stats.freed = gc.stats.freed.saturating_add(bytes);
        // SAFETY: the caller's promise.
        unsafe { heap.free_large(&mut gc.central, slot) };
        return true;
    }
    let Some(class) = Class::of(bytes) else {
        return false;
    };
    // SAFETY: this thread's own.
    match unsafe { current::get().as_mut() } {
        Some(thread) => {
            thread.enter_bins();
            // SAFETY: the caller's promise; kind and class are the slot's.
            let freed = unsafe { heap.free(thread.bins.bin(kind, class), slot) };
            let sum = thread.freed.load(Relaxed) + if freed { bytes } else { 0 };
            thread.freed.store(sum, Relaxed);
            thread.leave_bins();
            freed
        }
        None => {
            let mut gc = collector::lock();
            gc.unknown.forget(heap.start(slot));
            let bin = gc
                .spare
                .get_or_insert_with(plimsoll_heap::Bins::boxed)
                .bin(kind, class);
            // SAFETY: as above.
            let freed = unsafe { heap.free(bin, slot) };
            let bytes = if freed { bytes } else { 0 };
            gc.stats.freed = gc.stats.freed.saturating_add(bytes);
            freed
        }
    }
}
