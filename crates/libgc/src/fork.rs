//! Fork: the child has one thread, and copies of all objects.

use crate::racy_cell::Variable;
use crate::thread::cancel::Uncancelled;
use crate::thread::unregistered;
use crate::{broker_thread, lock, state};
use libc::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The value of `GC_set_handle_fork`: whether fork handlers are the collector's (1), absent (0) or
/// the program's (-1).
pub(crate) static HANDLES: Variable<c_int> = Variable::new(1);

/// Has the lock held during every fork of the process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: called once. Its handlers come before those below, so that these may allocate.
        unsafe { dlmalloc::enable_alloc_after_fork() };
        // SAFETY: handlers that live as long as the library; it is never unloaded once it has a heap.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// The fork happens inside a callback of the collector, which holds the lock before and after.
static INSIDE: AtomicBool = AtomicBool::new(false);

extern "C" fn prepare() {
    if HANDLES.get() == 1 {
        hold();
    }
}

extern "C" fn parent() {
    if HANDLES.get() == 1 {
        release();
    }
}

extern "C" fn child() {
    if HANDLES.get() == 1 {
        only_this();
    }
}

/// Takes the lock for the time of a fork.
pub(crate) fn hold() {
    let inside = lock::is_mine();
    if !inside {
        state::lock().keep();
    }
    INSIDE.store(inside, Relaxed);
    unregistered::forks();
}

/// Frees it in the parent.
pub(crate) fn release() {
    if !INSIDE.load(Relaxed) {
        lock::unlock();
    }
}

/// Frees it in the child, and forgets what does not exist there.
pub(crate) fn only_this() {
    // Closes the parent's files, which would be a cancellation point.
    let _uncancelled = Uncancelled::begin();
    let mut gc = state::held();
    let heap = gc.heap;
    gc.program.threads.only_this(heap);
    gc.program.unknown.forked();
    gc.collector.forked();
    broker_thread::forked();
    drop(gc);
    if !INSIDE.load(Relaxed) {
        lock::unlock_in_child();
    }
}
