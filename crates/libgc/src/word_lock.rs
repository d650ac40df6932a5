//! A lock of one word, which is a futex: it may be taken and freed in different functions.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, SPINS, futex, spin_loop};

/// States of the word.
const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread waits for it.
const CONTENDED: u32 = 2;

/// Whether the lock is free, held, or held while threads wait.
pub(crate) struct Word(AtomicU32);

impl Word {
    pub(crate) const fn new() -> Word {
        Word(AtomicU32::new(FREE))
    }

    /// Takes the lock, if it is free.
    pub(crate) fn take(&self) -> bool {
        let taken = self.0.compare_exchange(FREE, HELD, Acquire, Relaxed);
        taken.is_ok()
    }

    /// Waits until the lock is free, and takes it. A signal handler may interrupt this, and run.
    pub(crate) fn wait(&self) {
        if self.spin() {
            return;
        }
        while self.0.swap(CONTENDED, Acquire) != FREE {
            // The word changed meanwhile, or a signal came: the loop checks again.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, CONTENDED, None);
        }
    }

    /// Takes the lock if it becomes free soon. False if it does not.
    fn spin(&self) -> bool {
        (0..SPINS).any(|_| {
            spin_loop();
            self.0.load(Relaxed) == FREE && self.take()
        })
    }

    /// Frees the lock, which the caller holds.
    pub(crate) fn free(&self) {
        if self.0.swap(FREE, Release) == CONTENDED {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }

    /// Frees the lock where no other thread can hold it or wait for it.
    pub(crate) fn forget(&self) {
        self.0.store(FREE, Relaxed);
    }
}
