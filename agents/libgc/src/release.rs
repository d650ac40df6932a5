//! Giving memory back: discards free heap, and collects where that is not enough. Only the helper
//! calls this, from within an active region, while no fork is under way.

use crate::collector::Libgc;
use crate::{ballast, hooks, schedule, sense};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes more in swap that a release minds.
const PAGED: u64 = 1 << 20;
/// Collections that a free block must have survived before libgc unmaps it in a forced one.
const UNMAP_AFTER: usize = 2;
/// The least bytes in swap since the last release.
static SWAPPED: AtomicU64 = AtomicU64::new(0);

/// Takes ballast until the extent is `goal`, as far as there is free heap.
fn shrink_to(gc: &'static Libgc, goal: u64) {
    let surplus = hooks::extent(&gc.read()).saturating_sub(goal);
    if surplus > 0 {
        ballast::take(gc, surplus, |bytes| hooks::lend(gc, bytes));
        hooks::measure_other(&gc.read(), 0);
    }
}

/// Collects, and gives what is free back to the kernel as far as libgc does: blocks that were free before.
fn collect(gc: &'static Libgc) {
    // SAFETY: the thread is registered and active here.
    unsafe { (gc.collect_and_unmap)() };
}

/// Discards free heap, then collects and discards again if the extent is still beyond the goal.
pub fn reclaim(gc: &'static Libgc, goal: u64) {
    let beyond = |gc: &Libgc| hooks::extent(&gc.read()) > goal.saturating_add(schedule::MIN_GUARD);
    if !paged_out() {
        shrink_to(gc, goal);
    }
    if beyond(gc) && !gc.disabled() {
        collect(gc);
        unmap_paged(gc);
    }
    shrink_to(gc, goal);
    SWAPPED.store(swapped(), Ordering::Release);
}

/// Makes libgc unmap what is free, when much is in swap. libgc writes into each block that it hands
/// out, as ballast or to the program, and so would read from swap what is only to be thrown away.
/// It unmaps without a look, but only what was free for two collections.
fn unmap_paged(gc: &'static Libgc) {
    for _ in 0..UNMAP_AFTER {
        if paged_out() {
            collect(gc);
        }
    }
}

/// Whether more is in swap than there was since the last release: heap, then, and not what the
/// program left there for good.
fn paged_out() -> bool {
    swapped() > SWAPPED.load(Ordering::Acquire).saturating_add(PAGED)
}

/// Remembers how little was in swap.
pub fn saw_swapped(bytes: u64) {
    SWAPPED.fetch_min(bytes, Ordering::AcqRel);
}

fn swapped() -> u64 {
    sense::memory().unwrap_or_default().swapped
}
