//! Fork. While any thread forks, the helper is not inside libgc, so that the child finds the
//! collector in a consistent state. A child that collects gets a helper of its own at its first
//! collection; a child that soon executes another program gets none.

use crate::orders::ORDERS;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Whose turn it is to work inside libgc: nobody's, the helper's, or a fork's.
const FREE: u32 = 0;
const HELPER: u32 = 1;
const FORKING: u32 = 2;

static TURN: AtomicU32 = AtomicU32::new(FREE);
static ORPHAN: AtomicBool = AtomicBool::new(false);

/// A fork waits at most this many times [`STEP`] for the helper (5 s), then goes on.
const STEPS: u32 = 50_000;
const STEP: Duration = Duration::from_micros(100);

/// Installs the fork handlers.
pub fn watch() {
    // SAFETY: the handlers live as long as the process and only touch atomics.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

unsafe extern "C" fn before() {
    for _ in 0..STEPS {
        if TURN
            .compare_exchange(FREE, FORKING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            return;
        }
        std::thread::sleep(STEP);
    }
}

unsafe extern "C" fn after() {
    let _ = TURN.compare_exchange(FORKING, FREE, Ordering::AcqRel, Ordering::Acquire);
}

unsafe extern "C" fn in_child() {
    TURN.store(FREE, Ordering::Release);
    // If the wait for the helper was in vain, the helper was inside a collection.
    ORDERS.forked();
    ORPHAN.store(true, Ordering::Release);
}

/// Whether this is a child whose helper is missing. Says so once; the caller starts one.
pub fn take_orphan() -> bool {
    ORPHAN.swap(false, Ordering::AcqRel)
}

/// Runs `work` while no fork is under way. Returns `None` without running it if one is.
pub fn unless_forking<T>(work: impl FnOnce() -> T) -> Option<T> {
    TURN.compare_exchange(FREE, HELPER, Ordering::AcqRel, Ordering::Acquire)
        .ok()?;
    let result = work();
    TURN.store(FREE, Ordering::Release);
    Some(result)
}
