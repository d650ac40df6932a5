//! The allocation lock: a futex, because libgc's interface locks and unlocks it in different functions.

use crate::thread::current;
use rustix::thread::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits.
const CONTENDED: u32 = 2;

/// A lock that is not reentrant. A thread that waits for it is stopped for a collection like any other: a handler of the program's may
/// interrupt it there, and run.
pub(crate) struct Lock {
    state: AtomicU32,
    /// Who holds it ([`current::id`]), or 0.
    owner: AtomicUsize,
}

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock {
            state: AtomicU32::new(FREE),
            owner: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lock(&self) {
        let quick = self.state.compare_exchange(FREE, HELD, Acquire, Relaxed);
        if quick.is_err() {
            while self.state.swap(CONTENDED, Acquire) != FREE {
                // It changed meanwhile, or a signal came: look again.
                let _ = futex::wait(&self.state, futex::Flags::PRIVATE, CONTENDED, None);
            }
        }
        self.owner.store(current::id(), Relaxed);
    }

    /// Whether this thread holds it.
    pub(crate) fn is_mine(&self) -> bool {
        self.owner.load(Relaxed) == current::id()
    }

    /// Frees it; who calls this holds it.
    pub(crate) fn unlock(&self) {
        self.owner.store(0, Relaxed);
        if self.state.swap(FREE, Release) == CONTENDED {
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
    }

    /// In a child of fork: nobody else is left who could hold it.
    pub(crate) fn forget(&self) {
        self.owner.store(0, Relaxed);
        self.state.store(FREE, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    struct Counter(Lock, UnsafeCell<u64>);
    // SAFETY: the number is only used under the lock.
    unsafe impl Sync for Counter {}

    #[test]
    fn one_at_a_time() {
        let counter = Counter(Lock::new(), UnsafeCell::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let counter = &counter;
                    for _ in 0..20_000 {
                        counter.0.lock();
                        // SAFETY: under the lock.
                        unsafe { *counter.1.get() += 1 };
                        counter.0.unlock();
                    }
                });
            }
        });
        assert_eq!(counter.1.into_inner(), 80_000);
    }
}
