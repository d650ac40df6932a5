//! Calls finalizers that are due. The lock is not held meanwhile.

use super::finalizers::Procedure;
use crate::abi::variables::{GC_finalize_on_demand, GC_finalizer_notifier};
use crate::heap;
use crate::state::{self, Locked};
use libc::{c_int, c_void};
use std::cell::Cell;

/// Takes a due finalizer. The lock is released before the finalizer is called.
fn next_due() -> Option<(*mut c_void, Procedure, *mut c_void)> {
    state::lock().program.finalization.finalizers.next_due()
}

/// Calls the due finalizers and returns how many there were.
pub(crate) fn invoke_due() -> c_int {
    let mut count = 0;
    if !heap::is_ready() {
        return count;
    }
    loop {
        let Some((object, procedure, data)) = next_due() else {
            return count;
        };
        // The object's address is on this stack, so the object stays alive.
        // SAFETY: the program's procedure, for the object and the data that it was registered with.
        unsafe { procedure(object, data) };
        std::hint::black_box(object);
        count += 1;
    }
}

thread_local! {
    /// How many finalizers called from [`notify_or_invoke`] this thread is inside of, as far as is
    /// known: a jump or an exception may have left one. And how often finalizers were not called
    /// since then for that reason.
    static INSIDE: Cell<(u8, u32)> = const { Cell::new((0, 0)) };
}

/// Whether to call finalizers now. Inside n finalizers, only every 2^n-th time does so, as with
/// libgc. So they do not nest without end, and if one never returns, others are still called.
fn goes_inside() -> bool {
    let (level, skipped) = INSIDE.get();
    let skipped = skipped.saturating_add(1);
    let goes = level == 0 || skipped >= 1u32.checked_shl(level.into()).unwrap_or(u32::MAX);
    INSIDE.set(if goes {
        (level.saturating_add(1), 0)
    } else {
        (level, skipped)
    });
    goes
}

/// Calls the due finalizers, or notifies the program of them, once per collection. The lock must
/// not be held.
pub(crate) fn notify_or_invoke() {
    if GC_finalize_on_demand.get() == 0 {
        if goes_inside() {
            invoke_due();
            // As with libgc: none is due any more on any level. A finalizer that does not return
            // here leaves its level behind.
            INSIDE.set((0, 0));
        }
        return;
    }
    // The lock is released before the program is called.
    let notify = first_time(&mut state::lock());
    if let Some(notify) = notify {
        notify();
    }
}

/// The program's notifier, if it has not been called since the last collection.
fn first_time(gc: &mut Locked) -> Option<extern "C-unwind" fn()> {
    let notify = GC_finalizer_notifier.get()?;
    gc.program
        .finalization
        .finalizers
        .is_news()
        .then_some(notify)
}

/// Makes every finalizer due and calls it, even for live objects. For the end of a program.
pub(crate) fn invoke_all() {
    while heap::is_ready() && make_all_due() {
        invoke_due();
    }
}

fn make_all_due() -> bool {
    state::lock().program.finalization.finalizers.make_all_due()
}
