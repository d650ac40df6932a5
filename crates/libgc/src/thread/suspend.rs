//! What programs may do to threads themselves (javaxfc.h, gc.h): suspend one, and stop the world.
//!
//! A suspended thread waits in the handler of the suspend signal, so collections need not stop it
//! again.

use super::record::Thread;
use super::registered::Threads;
use libc::{c_void, pthread_t};
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
    pub(crate) fn await_parked(&self, parked: u32) {
        while self.parked.load(Acquire) != parked {
            let _ = futex::wait(&self.parked, futex::Flags::PRIVATE, 1 - parked, None);
        }
    }
}

/// The running thread with this handle.
pub(crate) fn find(threads: &Threads, pthread: *mut c_void) -> Option<&'static Thread> {
    threads
        .running()
        // SAFETY: threads of the list, under the lock.
        .map(|thread| unsafe { &*thread })
        .find(|this| this.pthread == pthread as pthread_t)
}
