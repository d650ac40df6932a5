//! Puts the adapter's schedule in force in libgc, or what the program set.

use crate::collector::Libgc;
use crate::heap::Heap;
use crate::orders::ORDERS;
use crate::program_settings::{WISHES, program_notifier};
use crate::published::PUBLISHED;
use crate::schedule;
use plimsoll_unit::Bytes;
use std::sync::atomic::Ordering;

/// Sets `dont_expand` and the free space divisor, which determines the heap's increments, according
/// to the heap's size and the program's wishes. Takes no lock.
pub fn apply(gc: &'static Libgc) {
    let no_growth = WISHES.dont_expand.load(Ordering::Acquire);
    let divisor = WISHES.divisor.load(Ordering::Acquire);
    let (no_growth, divisor) = if ORDERS.engaged() {
        let heap = Heap::read(gc);
        let ballast = ORDERS.lent() - heap.whole;
        let ceiling = PUBLISHED.ceiling(ORDERS.allowance());
        let most = WISHES.most.load(Ordering::Acquire).into();
        let below = schedule::most(most) - heap.whole;
        let room = (ceiling - heap.extent).min(below);
        let full = room.max(ballast.min(below)) == Bytes::ZERO;
        let ours = schedule::divisor(heap.whole, room);
        (if full { 1 } else { no_growth }, divisor.max(ours))
    } else {
        (no_growth, divisor)
    };
    // SAFETY: plain stores in libgc.
    unsafe {
        (gc.set_dont_expand)(no_growth);
        (gc.set_divisor)(divisor);
    }
}

/// Lets the heap grow by `bytes` beyond the ceiling, for a piece of ballast that fits
/// nowhere; none ends that. Takes no lock.
pub fn lend(gc: &'static Libgc, bytes: Bytes) {
    let most = match bytes {
        Bytes::ZERO => Bytes::ZERO,
        _ => Bytes::from(gc.read().heap) + bytes,
    };
    ORDERS.lend(most);
    apply(gc);
}

/// Puts either the adapter's schedule or the program's in force, as ordered. Must not be called
/// from a hook.
pub fn engage(gc: &'static Libgc) {
    let ours = ORDERS.engaged();
    let wish = WISHES.automatic_off.load(Ordering::Acquire);
    // SAFETY: a setter of an initialised collector; the caller does not hold the allocation lock.
    unsafe { (gc.set_automatic_off)(if ours { 1 } else { wish }) };
    retry(gc);
    apply(gc);
}

/// Sets the number of retries. With automatic collection off, libgc fails an allocation when the
/// kernel has no more memory for the heap, however much garbage there is, unless it may retry: then
/// it collects. Takes no lock.
pub fn retry(gc: &'static Libgc) {
    let wish = WISHES.retries.load(Ordering::Acquire);
    let ours = usize::from(ORDERS.engaged());
    // SAFETY: a plain store in libgc.
    unsafe { (gc.set_retries)(wish.max(ours)) };
}

/// Sets whether finalizers run on demand only: as the program wishes, but during a collection of
/// the helper always, so that none runs. Takes no lock.
pub fn demand(gc: &'static Libgc) {
    let held = ORDERS.holds_finalizers();
    let wish = WISHES.on_demand.load(Ordering::Acquire);
    // SAFETY: a plain store in libgc.
    unsafe { (gc.set_on_demand)(if held { 1 } else { wish }) };
}

/// Sets the finalizer notifier: the program's, except that none runs on the helper's thread.
/// Finalizers found there wait for the program's next allocation, or, if the program runs them on
/// demand, for the notification of its own next collection. Must not be called from a hook.
pub fn finalizers(gc: &'static Libgc) {
    let held = ORDERS.holds_finalizers();
    let notifier = if held { None } else { program_notifier() };
    // SAFETY: a setter of an initialised collector; the caller does not hold the allocation lock.
    unsafe { (gc.set_notifier)(notifier) };
    demand(gc);
}
