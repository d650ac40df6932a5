//! gc.h, gc_mark.h and javaxfc.h: threads, their stacks, and stopping them; forks.

use crate::abi::variables::GC_stackbottom;
use crate::racy_cell::share;
use crate::thread::blocking::{ActiveAgain, BlockedAgain, Function, block_at};
use crate::thread::record::Thread;
use crate::thread::registers::with_registers;
use crate::thread::stack::{DUPLICATE, SUCCESS, StackBase, UNIMPLEMENTED, base};
use crate::thread::stack_use::Section;
use crate::thread::stop::signals;
use crate::thread::{current, exit};
use crate::{fork, heap, lock, start};
use libc::{c_int, c_void};
use std::ptr::null_mut;

/// Threads may always be registered.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_allow_register_threads() {
    share();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_register_my_thread(base: *const StackBase) -> c_int {
    share();
    let mut gc = start::lock();
    if !current::get().is_null() {
        return DUPLICATE;
    }
    // SAFETY: the caller's.
    let base = unsafe { (*base).mem_base } as usize;
    match gc.program.threads.register(base) {
        Some(_) => {
            gc.program.unknown.registered();
            // The thread may end without unregistering.
            exit::watch();
            SUCCESS
        }
        None => UNIMPLEMENTED,
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_my_thread() -> c_int {
    let mut gc = start::lock();
    let heap = gc.heap;
    gc.program.leave(heap, null_mut());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_thread_is_registered() -> c_int {
    c_int::from(!current::get().is_null())
}

/// Registers the range of a stack of this thread's that its signal handlers run on.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_altstack(
    stack: *mut c_void,
    stack_bytes: usize,
    alternative: *mut c_void,
    bytes: usize,
) {
    let range = |start: *mut c_void, bytes| start as usize..(start as usize).saturating_add(bytes);
    let _gc = start::lock();
    // SAFETY: this thread's own; under the lock.
    if let Some(this) = unsafe { current::get().as_ref() } {
        this.stack
            .tell(range(stack, stack_bytes), range(alternative, bytes));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_my_stackbottom(found: *mut StackBase) -> *mut c_void {
    let gc = start::lock();
    let thread = current::get();
    // SAFETY: this thread's own; `found` is the caller's.
    unsafe {
        let base = thread.as_ref().map_or(0, |this| this.stack.base());
        (*found).mem_base = base as *mut c_void;
    }
    drop(gc);
    thread.cast()
}

/// The caller holds the allocation lock, or the handle is that of the calling thread.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_set_stackbottom(handle: *mut c_void, base: *const StackBase) {
    let thread: *mut Thread = if handle.is_null() {
        current::get()
    } else {
        handle.cast()
    };
    // SAFETY: a handle that `GC_get_my_stackbottom` gave, or this thread; `base` is the caller's.
    unsafe {
        let base = (*base).mem_base as usize;
        match thread.as_ref() {
            Some(this) => this.stack.set_base(base),
            None => GC_stackbottom.set(base),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_stack_base(found: *mut StackBase) -> c_int {
    match base() {
        Some(base) => {
            // SAFETY: the caller's.
            unsafe { (*found).mem_base = base as *mut c_void };
            SUCCESS
        }
        None => UNIMPLEMENTED,
    }
}

type StackFunction = unsafe extern "C-unwind" fn(*mut StackBase, *mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_stack_base(
    function: StackFunction,
    argument: *mut c_void,
) -> *mut c_void {
    let mut base = StackBase {
        mem_base: null_mut(),
    };
    base.mem_base = (&raw mut base).cast();
    // SAFETY: what the caller asks for.
    let result = unsafe { function(&mut base, argument) };
    // `base` on the stack must outlive the call.
    std::hint::black_box(&base);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_do_blocking(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    start::ensure();
    with_registers(|here| {
        block_at(here);
        let _again = ActiveAgain;
        // SAFETY: what the caller asks for.
        unsafe { function(argument) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_gc_active(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    let thread = current::get();
    let gc = start::lock();
    // SAFETY: this thread's own; under the lock.
    let Some(blocked_at) = unsafe { thread.as_ref() }.and_then(|this| this.stack.blocked_at())
    else {
        drop(gc);
        // SAFETY: what the caller asks for.
        return unsafe { function(argument) };
    };
    let mut section = Section::new(blocked_at);
    // SAFETY: not null, see above; under the lock.
    unsafe { (*thread).stack.open(&mut section) };
    drop(gc);
    let _again = BlockedAgain(&section);
    // SAFETY: what the caller asks for.
    unsafe { function(argument) }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_suspend_thread(pthread: *mut c_void) {
    let gc = start::lock();
    let Some(this) = gc.program.threads.find(pthread as libc::pthread_t) else {
        return;
    };
    if !this.suspension.begin() {
        return;
    }
    if std::ptr::eq(this, current::get()) {
        drop(gc);
        this.signal(signals::suspend());
    } else if this.signal(signals::suspend()) {
        // The lock is held, so no collection begins before the thread is parked and need not be
        // stopped.
        this.suspension.await_parked(1);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_resume_thread(pthread: *mut c_void) {
    let gc = start::lock();
    if let Some(this) = gc.program.threads.find(pthread as libc::pthread_t)
        && this.suspension.end()
    {
        this.suspension.await_parked(0);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_thread_suspended(pthread: *mut c_void) -> c_int {
    let gc = start::lock();
    c_int::from(
        gc.program
            .threads
            .find(pthread as libc::pthread_t)
            .is_some_and(|this| this.suspension.is_wanted()),
    )
}

/// The lock stays held until [`GC_start_world_external`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_stop_world_external() {
    let gc = start::lock();
    gc.program.threads.stop_world();
    gc.keep();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_world_external() {
    start::held().program.threads.start_world();
    lock::unlock();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_suspend_signal() -> c_int {
    signals::suspend()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_thr_restart_signal() -> c_int {
    signals::restart()
}

/// Without effect once the handler is installed.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_suspend_signal(signal: c_int) {
    if !heap::is_ready() {
        signals::set_suspend(signal);
    }
}

/// Sets a signal that is never sent: stopped threads wait for another word.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_thr_restart_signal(signal: c_int) {
    if !heap::is_ready() {
        signals::set_restart(signal);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_handle_fork(handles: c_int) {
    fork::HANDLES.set(handles);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_prepare() {
    if fork::HANDLES.get() != 1 {
        start::ensure();
        fork::hold();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_parent() {
    if fork::HANDLES.get() != 1 {
        fork::release();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_atfork_child() {
    if fork::HANDLES.get() != 1 {
        fork::only_this();
    }
}
