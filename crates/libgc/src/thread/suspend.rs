//! Programs may suspend a thread (javaxfc.h).
//!
//! A suspended thread waits in the handler of the suspend signal, so collections need not stop it
//! again.

use rustix::thread::futex;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

/// Whether the program wants a thread to wait, and whether the thread does. Both are futexes.
pub(crate) struct Suspension {
    /// 1 while the program wants the thread to wait.
    wanted: AtomicU32,
    /// 1 while it waits.
    parked: AtomicU32,
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, u32::MAX >> 1);
}

impl Suspension {
    /// The program wants the thread to wait. False if it did before.
    pub(crate) fn begin(&self) -> bool {
        self.wanted.swap(1, Release) == 0
    }

    /// The thread may go on, and is woken. False if it was not suspended.
    pub(crate) fn end(&self) -> bool {
        let was = self.wanted.swap(0, Release) != 0;
        if was {
            wake(&self.wanted);
        }
        was
    }

    /// Whether the program wants the thread to wait.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire) != 0
    }

    /// Whether the thread waits. If so, this thread sees all that it did before.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.load(Acquire) != 0
    }

    /// Called in the signal handler: waits as long as the program keeps the thread suspended.
    pub(super) fn park(&self) {
        self.parked.store(1, Release);
        wake(&self.parked);
        while self.is_wanted() {
            let _ = futex::wait(&self.wanted, futex::Flags::PRIVATE, 1, None);
        }
        self.parked.store(0, Release);
        wake(&self.parked);
    }

    /// Waits until `parked` equals the argument.
    pub(crate) fn await_parked(&self, parked: u32) {
        while self.parked.load(Acquire) != parked {
            let _ = futex::wait(&self.parked, futex::Flags::PRIVATE, 1 - parked, None);
        }
    }
}
