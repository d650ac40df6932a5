//! The guard between the virtual machine and everything that could go wrong here: no panic leaves a function
//! that the machine calls, and the agent's state is used by one thread at a time without a wait.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// A panic happened: nothing is done any more.
static BROKEN: AtomicBool = AtomicBool::new(false);
/// The machine ends: its data may go at any time.
static OVER: AtomicBool = AtomicBool::new(false);

/// Runs `work` unless the agent is over or broken. After a panic, returns `otherwise` now and for ever.
pub fn unharmed<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    if is_over() {
        return otherwise;
    }
    caught(work).unwrap_or_else(|| {
        BROKEN.store(true, Ordering::Release);
        otherwise
    })
}

/// Runs `work`; `None` after a panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // Its destructor could panic again.
            std::mem::forget(payload);
            None
        }
    }
}

/// Stops everything.
pub fn stop() {
    OVER.store(true, Ordering::Release);
}

/// Whether a panic ended the agent.
pub fn is_broken() -> bool {
    BROKEN.load(Ordering::Acquire)
}

/// Whether the agent does nothing any more.
pub fn is_over() -> bool {
    OVER.load(Ordering::Acquire) || is_broken()
}

/// A value that is set once and then used by whoever finds it unused.
pub struct Shared<T> {
    busy: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `value` is only touched by the thread that set `busy`, which is released after it.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Without a value.
    pub const fn empty() -> Shared<T> {
        Shared {
            busy: AtomicBool::new(false),
            value: UnsafeCell::new(None),
        }
    }

    /// Puts the value in. Waits for a thread that looks for one at this moment: not to be called within a
    /// pause.
    pub fn set(&self, value: T) {
        let mut value = Some(value);
        while self.claimed(|place| *place = value.take()).is_none() {
            std::thread::yield_now();
        }
    }

    /// Uses the value. `None` without one, and while another thread uses it: nobody waits.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.claimed(|place| place.as_mut().map(work)).flatten()
    }

    fn claimed<R>(&self, work: impl FnOnce(&mut Option<T>) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        /// Releases the claim, after a panic too.
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _release = Release(&self.busy);
        // SAFETY: `busy` was false and is ours until `_release` is dropped, after `work`.
        Some(work(unsafe { &mut *self.value.get() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nobody_waits() {
        let shared = Shared::empty();
        assert_eq!(shared.with(|n: &mut u32| *n), None);
        shared.set(7);
        let inner = shared.with(|n| {
            *n += 1;
            shared.with(|n| *n)
        });
        assert_eq!(inner, Some(None), "it is in use");
        assert_eq!(shared.with(|n| *n), Some(8));
        struct PanicsAgain;
        impl Drop for PanicsAgain {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let panicked = caught(|| shared.with(|_| std::panic::resume_unwind(Box::new(PanicsAgain))));
        assert!(panicked.is_none());
        assert_eq!(shared.with(|n| *n), Some(8), "a panic leaves it usable");
    }
}
