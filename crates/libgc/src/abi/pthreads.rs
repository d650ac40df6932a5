//! gc_pthread_redirects.h: the functions of POSIX threads, for threads that use the collector.

use crate::racy_cell::share;
use crate::start;
use crate::thread::pthreads::{self, Start};
use crate::thread::stop::signals;
use libc::{c_int, c_void, pthread_attr_t, pthread_t, sigset_t};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    share();
    start::ensure();
    // SAFETY: the caller's arguments.
    unsafe { pthreads::create(thread, attributes, start, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's arguments.
    let failed = unsafe { pthreads::pthread_join(thread, result) };
    if failed == 0 {
        pthreads::forget(thread, true);
    }
    failed
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's argument.
    let failed = unsafe { libc::pthread_detach(thread) };
    if failed == 0 {
        pthreads::forget(thread, false);
    }
    failed
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's argument.
    unsafe { pthreads::pthread_cancel(thread) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_exit(result: *mut c_void) {
    pthreads::keep(result);
    // SAFETY: the caller's wish; nothing of ours is on the stack any more.
    unsafe { pthreads::pthread_exit(result) }
}

/// Like `pthread_sigmask`, but never blocks the suspend signal.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let mut mine;
    let mut set = set;
    if !set.is_null() && (how == libc::SIG_BLOCK || how == libc::SIG_SETMASK) {
        // SAFETY: a copy of the caller's set.
        unsafe {
            mine = *set;
            libc::sigdelset(&mut mine, signals::suspend());
        }
        set = &raw const mine;
    }
    // SAFETY: the caller's arguments, but for the copy.
    unsafe { libc::pthread_sigmask(how, set, old) }
}
