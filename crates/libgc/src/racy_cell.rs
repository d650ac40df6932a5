//! A word that the program may read and assign without a lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Several threads use the collector, or soon will. Never reset.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Notes that a thread other than the first is about to use the collector. Threads that libgc's rules
/// allow come here before they run beside another one. If an unregistered thread does not, one
/// addition of the first thread may be lost.
#[inline]
pub(crate) fn share() {
    if !SHARED.load(Relaxed) {
        SHARED.store(true, Relaxed);
    }
}

/// A variable that C code may read and assign: one word, without a lock, as in libgc.
#[repr(transparent)]
pub(crate) struct Variable<T>(UnsafeCell<T>);

// SAFETY: a word at most, read and written whole; what it means to race is the program's concern,
// as in libgc.
unsafe impl<T> Sync for Variable<T> {}

impl<T: Copy> Variable<T> {
    pub(crate) const fn new(value: T) -> Variable<T> {
        Variable(UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        // SAFETY: a valid value is in it at all times.
        unsafe { self.0.get().read_volatile() }
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: T) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}

impl Variable<usize> {
    /// Adds `amount`, or subtracts it in two's complement. Atomic among threads that use this
    /// function. A program of one thread does not pay for that: an atomic addition waits until all
    /// that was written before has left the processor, such as an object that was just cleared.
    #[inline(always)]
    pub(crate) fn add(&self, amount: usize) {
        if !SHARED.load(Relaxed) {
            self.set(self.get().wrapping_add(amount));
            return;
        }
        // SAFETY: a word that lives as long as the library.
        unsafe { AtomicUsize::from_ptr(self.0.get()) }.fetch_add(amount, Relaxed);
    }
}
