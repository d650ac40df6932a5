//! Collections by this library's threads and by the program's.

use crate::abi::variables::{GC_dont_gc, StopFunc, finds_leaks, stop_func, unmap_on_gcollect};
use crate::finalization::invoke;
use crate::front_end::{allowed, collect, may_go_on};
use crate::state::{self, Locked};
use crate::thread::registers::with_registers;
use crate::{diagnostics, leak_report, lock};
use plimsoll_collector::{Collector, Why};

/// Gives the heap's free memory back to the kernel.
pub(crate) fn unmap() {
    state::lock().collector.give_back();
}

/// Collects before a table of finalizers or links grows, if that is allowed: many of its entries may
/// be dead. The caller's frames are scanned, and so what it is about to enter. As after [`collect`], the
/// caller calls [`invoke::notify_or_invoke`] after it has released the lock.
pub(crate) fn before_growth(gc: &mut Locked) {
    if allowed() && !gc.collector.is_incremental_on() {
        with_registers(|here| collect(gc, Why::Crowd, here));
    }
}

/// Collects because the program asks for it. False if it was not allowed: by `stop`, if there is one.
pub(crate) fn ask(stop: Option<StopFunc>) -> bool {
    let mut gc = state::lock();
    if gc.program.finalization.is_due() {
        // Due finalizers are called before the collection, too, as in libgc.
        drop(gc);
        invoke::notify_or_invoke();
        gc = state::lock();
    }
    if GC_dont_gc.get() != 0 || stop.is_some_and(|stop| stop() != 0) {
        return false;
    }
    with_registers(|here| collect(&mut gc, Why::Asked, here));
    let due = gc.program.finalization.is_due();
    drop(gc);
    lock::give_way();
    leak_report::report();
    if due {
        invoke::notify_or_invoke();
    }
    true
}

/// Turns incremental mode on, if the kernel tracks writes.
pub(crate) fn turn_incremental_on(collector: &mut Collector<'_>) {
    if !finds_leaks() && !collector.turn_incremental_on() {
        diagnostics::warn(
            c"Incremental mode needs a kernel that tracks writes (Linux 6.7, userfaultfd): it stays off\n",
            0,
        );
    }
}

/// Begins a collection, or does the next step of one, if the collector may collect. Returns whether
/// there is more to do.
pub(crate) fn do_some(begin: bool) -> bool {
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
        invoke::notify_or_invoke();
    }
    more
}

/// Collects as `GC_gcollect` does.
pub(crate) fn by_request() {
    if ask(Some(stop_func.get())) && unmap_on_gcollect.get() != 0 {
        unmap();
    }
}
