//! No panic leaves a function that the machine calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// A panic happened: nothing is done any more.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Runs `work` unless the agent is broken. After a panic, returns `otherwise` now and for ever.
pub fn unharmed<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    if BROKEN.load(Ordering::Relaxed) {
        return otherwise;
    }
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(payload) => {
            BROKEN.store(true, Ordering::Relaxed);
            // Its destructor could panic again.
            std::mem::forget(payload);
            otherwise
        }
    }
}
