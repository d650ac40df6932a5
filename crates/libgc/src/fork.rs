//! Fork: the child has one thread, and all objects.

use crate::collector;
use crate::follow;
use crate::settings::Variable;
use crate::steps;
use crate::thread::cancel::Uncancelled;
use crate::thread::unknown;
use libc::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What `GC_set_handle_fork` said: whether handlers are ours (1), nobody's (0) or the program's (-1).
static HANDLES: Variable<c_int> = Variable::new(1);

/// Has the lock held through every fork of the process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: handlers that live as long as the library; it is never unloaded once it has a heap.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// The fork happens in a callback of the collector's, whose lock stays held before and after.
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

fn hold() {
    let inside = collector::is_mine();
    if !inside {
        collector::lock().keep();
    }
    INSIDE.store(inside, Relaxed);
    unknown::forks();
}

fn release() {
    if !INSIDE.load(Relaxed) {
        collector::unlock();
    }
}

fn only_this() {
    // Files of the parent's are closed.
    let _uncancelled = Uncancelled::begin();
    let mut gc = collector::held();
    gc.threads.only_this();
    gc.unknown.forked();
    gc.heap.forked();
    gc.pace.orphaned();
    follow::forked();
    // Helpers did not come along; what they share may be in any state, and is left alone.
    gc.crew = None;
    gc.alone = false;
    let heap = gc.heap;
    steps::forked(heap, &mut gc);
    drop(gc);
    if !INSIDE.load(Relaxed) {
        collector::unlock_in_child();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_handle_fork(handles: c_int) {
    HANDLES.set(handles);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_prepare() {
    if HANDLES.get() != 1 {
        hold();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_parent() {
    if HANDLES.get() != 1 {
        release();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_child() {
    if HANDLES.get() != 1 {
        only_this();
    }
}
