//! Collections that the program asks for, and leave to collect.

use crate::front::Front;
pub(crate) use crate::front::{allowed, may_go_on};
use crate::settings::{GC_dont_gc, StopFunc, stop_func, unmap_on_gcollect};
use crate::state::{self, Locked, State};
use crate::thread::blocking::with_registers;
use crate::{finalize, follow, leaks, report};
use libc::c_int;
use plimsoll_collector::{Collector, Why};

/// Collects, or does one step of a collection. The caller holds the lock, and calls
/// [`finalize::notify_or_invoke`] after it has released it. This thread's registers are on its
/// stack at `here`, and the program's frames lie above that.
pub(crate) fn collect(gc: &mut Locked, why: Why, here: usize) {
    follow::start();
    let State { collector, program } = &mut **gc;
    collector.collect(&mut Front::new(program, here), why);
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcollect() {
    if ask(Some(stop_func.get())) && unmap_on_gcollect.get() != 0 {
        unmap();
    }
}

fn unmap() {
    state::lock().collector.give_back();
}

/// Also gives the heap's free memory back to the kernel. The default stop function is not called.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_gcollect_and_unmap() {
    ask(None);
    unmap();
}

/// Returns 1 if there was a collection, 0 if the stop function that is passed prevented it.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_try_to_collect(stop: Option<StopFunc>) -> c_int {
    c_int::from(ask(stop))
}

/// Collects before a table of finalizers or links grows, if that is allowed: many of its entries may
/// be dead. The caller's frames are scanned, and so what it is about to enter. As after [`collect`], the
/// caller calls [`finalize::notify_or_invoke`] after it has released the lock.
pub(crate) fn before_growth(gc: &mut Locked) {
    if allowed() && !gc.collector.is_incremental_on() {
        with_registers(|here| collect(gc, Why::Crowd, here));
    }
}

fn ask(stop: Option<StopFunc>) -> bool {
    let mut gc = state::lock();
    if gc.program.finalization.is_due() {
        // Due finalizers are called before the collection, too, as in libgc.
        drop(gc);
        finalize::notify_or_invoke();
        gc = state::lock();
    }
    if GC_dont_gc.get() != 0 || stop.is_some_and(|stop| stop() != 0) {
        return false;
    }
    with_registers(|here| collect(&mut gc, Why::Asked, here));
    let due = gc.program.finalization.is_due();
    drop(gc);
    state::give_way();
    leaks::report();
    if due {
        finalize::notify_or_invoke();
    }
    true
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_disable() {
    let _guard = state::guard();
    GC_dont_gc.set(GC_dont_gc.get() + 1);
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_enable() {
    let _guard = state::guard();
    GC_dont_gc.set(GC_dont_gc.get() - 1);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_disabled() -> c_int {
    c_int::from(GC_dont_gc.get() != 0)
}

/// Turns incremental mode on, if the kernel tracks writes.
pub(crate) fn turn_incremental_on(collector: &mut Collector<'_>) {
    if !leaks::wanted() && !collector.turn_incremental_on() {
        report::warn(
            c"Incremental mode needs a kernel that tracks writes (Linux 6.7, userfaultfd): it stays off\n",
            0,
        );
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_enable_incremental() {
    turn_incremental_on(&mut state::lock().collector);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_incremental_mode() -> c_int {
    c_int::from(state::is_ready() && state::either().collector.is_incremental_on())
}

/// `GC_PROTECTS_NONE`: the kernel itself records writes, so no system call fails because a page is
/// write-protected.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// Begins a collection, or does the next step of one, if the collector may collect. Returns whether
/// there is more to do.
fn do_some(begin: bool) -> bool {
    let mut gc = state::lock();
    let due = gc.collector.is_under_way() != begin && gc.collector.is_incremental_on();
    let may = due && may_go_on();
    let why = if begin { Why::Begun } else { Why::Allocation };
    if may {
        with_registers(|here| collect(&mut gc, why, here));
    }
    let more = may && gc.collector.is_under_way();
    let due = gc.program.finalization.is_due();
    drop(gc);
    if due {
        finalize::notify_or_invoke();
    }
    more
}

/// Does something in incremental mode only.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_collect_a_little() -> c_int {
    c_int::from(do_some(false))
}

/// Does something in incremental mode only. If the collection is worth it, it is incremental, and its
/// steps are made by threads that allocate and by [`GC_collect_a_little`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_incremental_collection() {
    do_some(true);
}
