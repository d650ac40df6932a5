//! Freeing objects explicitly.

use crate::abi::variables::{GC_non_gc_bytes, finds_leaks};
use crate::racy_cell::share;
use crate::thread::current;
use crate::{diagnostics, state};
use libc::c_void;
use plimsoll_heap::{Freed, Heap};
use std::sync::atomic::Ordering::Relaxed;

/// Frees an object of the heap.
///
/// # Safety
/// The caller does not use the object any more.
#[inline(always)]
pub(crate) unsafe fn free(heap: &Heap, object: *mut c_void) {
    let start = object as usize;
    if finds_leaks() {
        forget(start);
    }
    // SAFETY: the caller does not use it any more.
    if !unsafe { free_small(heap, start) || free_large(heap, start) } {
        diagnostics::warn(c"Freed what is no object, or was freed before: %p\n", start);
    }
}

/// Frees the small object that begins at `start`. False if there is none.
#[inline(always)]
unsafe fn free_small(heap: &Heap, start: usize) -> bool {
    // SAFETY: this thread's own.
    let Some(thread) = (unsafe { current::get().as_mut() }) else {
        // SAFETY: the caller's promise.
        return unsafe { free_unregistered(heap, start) };
    };
    thread.enter_bins();
    // SAFETY: the caller's promise.
    let freed = unsafe { heap.free(&mut thread.bins, start) };
    let sum = thread.freed.load(Relaxed) + freed.map_or(0, |freed| freed.bytes);
    thread.freed.store(sum, Relaxed);
    thread.leave_bins();
    freed.inspect(uncount).is_some()
}

/// No longer counts the bytes of an object, if it is uncollectable.
#[inline(always)]
fn uncount(freed: &Freed) {
    if freed.uncollectable {
        GC_non_gc_bytes.add(freed.bytes.wrapping_neg());
    }
}

/// The same on a thread that is not registered.
#[cold]
#[inline(never)]
unsafe fn free_unregistered(heap: &Heap, start: usize) -> bool {
    share();
    let mut gc = state::lock();
    let bins = gc.program.unknown.own_bins();
    // SAFETY: the caller's promise.
    let Some(freed) = (unsafe { heap.free(bins, start) }) else {
        return false;
    };
    gc.program.unknown.forget(start);
    let sum = &mut gc.program.counted.freed;
    *sum = sum.saturating_add(freed.bytes);
    uncount(&freed);
    true
}

/// Frees the large object that begins at `start`. False if there is none.
#[cold]
#[inline(never)]
unsafe fn free_large(heap: &Heap, start: usize) -> bool {
    let begins = |&slot: &_| heap.start(slot) == start && heap.is_large(slot);
    let Some(slot) = heap.slot(start).filter(begins) else {
        return false;
    };
    let bytes = heap.size(slot);
    uncount(&Freed {
        bytes,
        uncollectable: heap.is_uncollectable(slot),
    });
    let mut gc = state::lock();
    gc.program.unknown.forget(start);
    let sum = &mut gc.program.counted.freed;
    *sum = sum.saturating_add(bytes);
    // SAFETY: the caller's promise.
    unsafe { heap.free_large(&mut gc.collector.central, slot) };
    true
}

/// Forgets a freed object, which is no leak. Its slot must not be reused without being recorded.
#[cold]
fn forget(start: usize) {
    current::no_quick();
    state::lock().program.leaks.forget(start);
}
