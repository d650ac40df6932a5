//! Threads that are created through the collector: registered before they run, and unregistered
//! when they end.

use super::cancel::Uncancelled;
use super::record::Thread;
use super::stop::signals;
use super::{current, exit, stack};
use crate::state;
use libc::{c_int, c_void, pthread_attr_t, pthread_t};
use rustix::thread::futex;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

pub(crate) type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The orders for a new thread. They lie on the stack of its creator, which waits until they were read,
/// so collections see the argument all the time.
struct Order {
    /// The program's function.
    start: Start,
    /// Its argument.
    argument: *mut c_void,
    /// Whether the thread is created detached.
    detached: bool,
    /// 0 until the new thread has read this; then [`TAKEN`] or [`REFUSED`]. A futex on which the creator
    /// waits.
    taken: AtomicU32,
}

/// The states of an order: `TAKEN`, the thread runs; `REFUSED`, there was no memory to register it,
/// and it has ended.
const TAKEN: u32 = 1;
const REFUSED: u32 = 2;

impl Order {
    fn answer(&self, answer: u32) {
        self.taken.store(answer, Release);
        let _ = futex::wake(&self.taken, futex::Flags::PRIVATE, 1);
    }
}

extern "C-unwind" fn run(order: *mut c_void) -> *mut c_void {
    // This frame lies above those of the program.
    let here = 0u8;
    let base = (!stack::is_costly()).then(stack::base).flatten();
    let base = base.unwrap_or((&raw const here).addr());
    // SAFETY: the creator waits until `taken` is set.
    let order: &Order = unsafe { &*order.cast() };
    let (start, argument) = (order.start, order.argument);
    let mut gc = state::lock();
    let thread = gc.program.threads.register(base);
    // SAFETY: this thread's own.
    let Some(this) = thread.and_then(|thread| unsafe { thread.as_mut() }) else {
        drop(gc);
        // Objects that only this thread referred to would be lost.
        order.answer(REFUSED);
        return null_mut();
    };
    this.joining.begin(order.detached);
    drop(gc);
    exit::watch();
    order.answer(TAKEN);
    let result = start(argument);
    let mut gc = state::lock();
    let heap = gc.heap;
    gc.program.leave(heap, result);
    result
}

/// Creates a thread. The collector is made.
///
/// # Safety
/// As for `pthread_create`.
pub(crate) unsafe fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    signals::unblock();
    let mut detached = 0;
    if !attributes.is_null() {
        // SAFETY: the caller's.
        unsafe { pthread_attr_getdetachstate(attributes, &mut detached) };
    }
    let order = Order {
        start,
        argument,
        detached: detached == libc::PTHREAD_CREATE_DETACHED,
        taken: AtomicU32::new(0),
    };
    // SAFETY: the caller's arguments; the order outlives its use, because this waits.
    let failed = unsafe {
        pthread_create(
            thread,
            attributes,
            run,
            (&raw const order).cast_mut().cast(),
        )
    };
    if failed != 0 {
        return failed;
    }
    while order.taken.load(Acquire) == 0 {
        let _ = futex::wait(&order.taken, futex::Flags::PRIVATE, 0, None);
    }
    if order.taken.load(Acquire) == TAKEN {
        return 0;
    }
    if !order.detached {
        // Creating a thread must not become a cancellation point.
        let _uncancelled = Uncancelled::begin();
        // SAFETY: a thread that was created just now, and that nobody else has heard of.
        unsafe { pthread_join(*thread, null_mut()) };
    }
    libc::EAGAIN
}

/// Drops the state kept of a thread that has ended, after it was joined or detached.
pub(crate) fn forget(pthread: pthread_t, joined: bool) {
    let mut gc = state::lock();
    if let Some(thread) = gc.program.threads.created(pthread) {
        // SAFETY: a thread of a list, under the lock.
        let this: &mut Thread = unsafe { &mut *thread };
        if this.joining.is_finished() {
            gc.program.threads.remove(thread);
        } else if !joined {
            this.joining.detach();
        }
    }
}

unsafe extern "C" {
    pub(crate) fn pthread_attr_getdetachstate(
        attributes: *const pthread_attr_t,
        state: *mut c_int,
    ) -> c_int;
    pub(crate) fn pthread_cancel(thread: pthread_t) -> c_int;
}

// A thread may end in these calls.
unsafe extern "C-unwind" {
    pub(crate) fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
    pub(crate) fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    pub(crate) fn pthread_exit(result: *mut c_void) -> !;
}

/// Stores what this thread will have returned until it is unregistered: the program's destructors
/// may still collect. It has a frame of its own, because the frame from which the thread ends must
/// have nothing to clean up, or unwinding would abort the program there.
#[inline(never)]
pub(crate) fn keep(result: *mut c_void) {
    let _gc = state::lock();
    // SAFETY: this thread's own; under the lock.
    if let Some(this) = unsafe { current::get().as_mut() } {
        this.joining.set_result(result);
    }
}
