//! The allocation lock: a futex, because libgc's interface locks and unlocks it in different functions.

use crate::thread::local;
use crate::word_lock::Word;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest time that [`Lock::give_way`] waits.
const WAY: Duration = Duration::from_micros(200);

/// A lock that is not reentrant. A thread that waits for it is stopped for a collection like any
/// other: a signal handler may interrupt the wait, and run.
pub(crate) struct Lock {
    /// Whether it is free, held, or held while threads wait.
    word: Word,
    /// The thread that holds it ([`local::id`]), or 0.
    owner: AtomicUsize,
    /// How many threads wait for it; too high if one left the wait by a jump out of a signal
    /// handler.
    waiting: AtomicU32,
}

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock {
            word: Word::new(),
            owner: AtomicUsize::new(0),
            waiting: AtomicU32::new(0),
        }
    }

    pub(crate) fn lock(&self) {
        if !self.word.take() {
            self.wait();
        }
        self.owner.store(local::id(), Relaxed);
    }

    #[cold]
    fn wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
        self.word.wait();
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// For a thread that held the lock for long and may want it again at once: lets waiting threads
    /// take it first. A thread that has to be woken would otherwise always be too late.
    pub(crate) fn give_way(&self) {
        let began = Instant::now();
        while self.waiting.load(Relaxed) > 0 && began.elapsed() < WAY {
            std::thread::yield_now();
        }
    }

    /// Whether this thread holds the lock.
    pub(crate) fn is_mine(&self) -> bool {
        self.owner.load(Relaxed) == local::id()
    }

    /// Frees the lock, which the caller holds.
    pub(crate) fn unlock(&self) {
        self.owner.store(0, Relaxed);
        self.word.free();
    }

    /// Resets the lock in a child of fork, where no other thread can hold it.
    pub(crate) fn forget(&self) {
        self.owner.store(0, Relaxed);
        self.waiting.store(0, Relaxed);
        self.word.forget();
    }
}

/// The lock of the collector.
pub(crate) static LOCK: Lock = Lock::new();

/// Lets other threads take the lock after a collection that the program asked for: the program may
/// do nothing but ask for collections.
pub(crate) fn give_way() {
    LOCK.give_way();
}

/// Whether this thread holds the lock, that is, runs a callback of the collector.
pub(crate) fn is_mine() -> bool {
    LOCK.is_mine()
}

/// Frees the lock that another function took and left held.
pub(crate) fn unlock() {
    LOCK.unlock();
}

/// Frees the lock in a child of fork, where no other thread can hold it.
pub(crate) fn unlock_in_child() {
    LOCK.forget();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::hint::spin_loop;

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

    #[test]
    fn one_that_has_it_nearly_always_gives_way() {
        const ROUNDS: u32 = 400;
        let lock = Lock::new();
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let taken = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut taken = 0;
                while ended.load(Relaxed) == 0 {
                    lock.lock();
                    taken += 1;
                    lock.unlock();
                    begun.store(1, Relaxed);
                }
                taken
            });
            while begun.load(Relaxed) == 0 {
                spin_loop();
            }
            for _ in 0..ROUNDS {
                lock.lock();
                let since = Instant::now();
                while since.elapsed() < WAY {
                    spin_loop();
                }
                lock.unlock();
                lock.give_way();
            }
            ended.store(1, Relaxed);
            other.join().unwrap()
        });
        assert!(taken > ROUNDS / 4, "{taken} of {ROUNDS}");
    }
}
