//! What programs may do to threads themselves (javaxfc.h, gc.h): suspend one, and stop the world.
//!
//! A suspended thread waits in the handler of the suspend signal, so collections need not stop it
//! again.

use super::{Thread, current, signals};
use crate::state::{self, Locked};
use libc::{c_int, c_void, pthread_t};
use rustix::thread::futex;
use std::sync::atomic::Ordering::{Acquire, Release};

impl Thread {
    /// Called in the signal handler: waits as long as the program keeps the thread suspended. Its
    /// registers are at `context`.
    pub(super) fn park(&self, context: usize) {
        if self.suspended.load(Acquire) == 0 {
            return;
        }
        self.stopped_at.store(context, Release);
        self.parked.store(1, Release);
        let _ = futex::wake(&self.parked, futex::Flags::PRIVATE, u32::MAX >> 1);
        while self.suspended.load(Acquire) != 0 {
            let _ = futex::wait(&self.suspended, futex::Flags::PRIVATE, 1, None);
        }
        self.parked.store(0, Release);
        let _ = futex::wake(&self.parked, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Waits until `parked` equals the argument, or the thread is gone.
    fn await_parked(&self, parked: u32) {
        while self.parked.load(Acquire) != parked {
            let _ = futex::wait(&self.parked, futex::Flags::PRIVATE, 1 - parked, None);
        }
    }
}

fn find(gc: &Locked, pthread: *mut c_void) -> Option<&'static Thread> {
    gc.program
        .threads
        .running()
        // SAFETY: threads of the list, under the lock.
        .map(|thread| unsafe { &*thread })
        .find(|this| this.pthread == pthread as pthread_t)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_suspend_thread(pthread: *mut c_void) {
    let gc = state::lock();
    let Some(this) = find(&gc, pthread) else {
        return;
    };
    if this.suspended.swap(1, Release) != 0 {
        return;
    }
    if std::ptr::eq(this, current::get()) {
        drop(gc);
        this.signal(signals::suspend());
    } else if this.signal(signals::suspend()) {
        // The lock is held, so no collection begins before the thread is parked and need not be
        // stopped.
        this.await_parked(1);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_resume_thread(pthread: *mut c_void) {
    let gc = state::lock();
    if let Some(this) = find(&gc, pthread)
        && this.suspended.swap(0, Release) != 0
    {
        let _ = futex::wake(&this.suspended, futex::Flags::PRIVATE, u32::MAX >> 1);
        this.await_parked(0);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_thread_suspended(pthread: *mut c_void) -> c_int {
    let gc = state::lock();
    c_int::from(find(&gc, pthread).is_some_and(|this| this.suspended.load(Acquire) != 0))
}

/// The lock stays held until [`GC_start_world_external`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_stop_world_external() {
    let gc = state::lock();
    gc.program.threads.stop_world();
    gc.keep();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_world_external() {
    state::held().program.threads.start_world();
    state::unlock();
}
