//! Giving memory back: discards free heap, and collects if that is not enough. Only the helper
//! calls this, as an active thread, while no fork is under way.

use crate::collector::Libgc;
use crate::heap::Heap;
use crate::published::PUBLISHED;
use crate::{apply_schedule, ballast, own_memory, schedule};
use plimsoll_unit::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// A release reacts when this much more is in swap than before.
const PAGED: Bytes = Bytes::mib(1);
/// How many collections a free block must have survived before a forced collection unmaps it.
const UNMAP_AFTER: usize = 2;
/// The smallest number of bytes in swap since the last release.
static SWAPPED: AtomicU64 = AtomicU64::new(0);

/// Takes ballast until the extent is `goal`, as far as there is free heap.
fn shrink_to(gc: &'static Libgc, goal: Bytes) {
    let surplus = Heap::read(gc).extent - goal;
    if surplus > Bytes::ZERO {
        ballast::take(gc, surplus, |bytes| apply_schedule::lend(gc, bytes));
        if let Some(memory) = own_memory::memory() {
            PUBLISHED.measured(memory, &Heap::read(gc), Bytes::ZERO);
        }
    }
}

/// Collects, and gives the free blocks back to the kernel that libgc unmaps: those that were free
/// before.
fn collect(gc: &'static Libgc) {
    // SAFETY: the thread is registered and active here.
    unsafe { (gc.collect_and_unmap)() };
}

/// Discards free heap; then, if the extent is still above the goal, collects and discards again.
pub fn reclaim(gc: &'static Libgc, goal: Bytes) {
    let beyond = |gc: &Libgc| Heap::read(gc).extent > goal + schedule::MIN_GUARD;
    if !paged_out() {
        shrink_to(gc, goal);
    }
    if beyond(gc) && !gc.disabled() {
        collect(gc);
        unmap_paged(gc);
    }
    shrink_to(gc, goal);
    SWAPPED.store(swapped().0, Ordering::Release);
}

/// Makes libgc unmap free blocks when much is in swap. libgc writes into each block that it hands
/// out, as ballast or to the program, and would so read pages from swap only to throw them away.
/// Unmapping does not read them, but covers only blocks that were free for two collections.
fn unmap_paged(gc: &'static Libgc) {
    for _ in 0..UNMAP_AFTER {
        if paged_out() {
            collect(gc);
        }
    }
}

/// Whether more is in swap than at some time since the last release. If so, that is heap, and not
/// memory that the program left in swap for good.
fn paged_out() -> bool {
    swapped() > Bytes(SWAPPED.load(Ordering::Acquire)) + PAGED
}

/// Remembers the smallest amount seen in swap.
pub fn saw_swapped(bytes: Bytes) {
    SWAPPED.fetch_min(bytes.0, Ordering::AcqRel);
}

fn swapped() -> Bytes {
    own_memory::memory().unwrap_or_default().swapped
}
