//! A lock for what one thread uses all the time and others rarely: for its owner, it takes no atomic
//! instruction that waits for other processors.
//!
//! The owner says that it is busy, and then looks whether another thread wants its turn. The other thread
//! says that it wants it, and then looks whether the owner is busy. One of both sees the other, if each says
//! it before it looks. Processors may delay a store beyond a later load, so the other thread has the kernel
//! put a barrier into all threads in between (Linux 4.14 and later); without that, the owner has a barrier
//! itself.

use plimsoll_kernel::barrier;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Time between two looks whether the owner is still busy.
const PACE: Duration = Duration::from_micros(50);

/// Whether the kernel puts barriers into all threads.
fn by_kernel() -> bool {
    static PREPARED: OnceLock<bool> = OnceLock::new();
    *PREPARED.get_or_init(barrier::prepare)
}

/// Something that mostly one thread uses.
#[derive(Debug)]
pub struct Biased<T> {
    /// The owner uses it. Written by the owner alone.
    busy: AtomicBool,
    /// Another thread uses it, or waits until the owner does not. Written under `turn`.
    wanted: AtomicBool,
    /// Held by the other thread that has its turn.
    turn: Mutex<()>,
    /// Whether the owner needs no barrier of its own.
    light: bool,
    value: UnsafeCell<T>,
}

// SAFETY: the protocol above lets one thread at a time have a reference to the value.
unsafe impl<T: Send> Sync for Biased<T> {}

/// The owner's access while it is busy.
#[derive(Debug)]
pub struct Own<'a, T>(&'a Biased<T>);

/// The access of another thread in its turn.
#[derive(Debug)]
pub struct Turn<'a, T> {
    of: &'a Biased<T>,
    /// Keeps other threads out until this is gone.
    _guard: MutexGuard<'a, ()>,
}

impl<T> Biased<T> {
    /// With a value that nobody uses.
    pub fn new(value: T) -> Biased<T> {
        Biased {
            busy: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            turn: Mutex::new(()),
            light: by_kernel(),
            value: UnsafeCell::new(value),
        }
    }

    /// The owner uses the value.
    ///
    /// # Safety
    /// Only one thread calls this, ever, and not while it has what this or [`Biased::turn`] returned before.
    #[inline]
    pub unsafe fn own(&self) -> Own<'_, T> {
        self.busy.store(true, Ordering::Relaxed);
        if self.light {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        // Acquire: what another thread did in its turn is seen.
        if self.wanted.load(Ordering::Acquire) {
            self.let_others();
        }
        Own(self)
    }

    #[cold]
    fn let_others(&self) {
        self.busy.store(false, Ordering::Release);
        // Nobody wants it while nobody has the turn.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.busy.store(true, Ordering::Relaxed);
        drop(turn);
    }

    /// Another thread uses the value. It waits until the owner does not.
    pub fn turn(&self) -> Turn<'_, T> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.store(true, Ordering::SeqCst);
        if self.light {
            // It is refused only to a process that is not prepared for it.
            barrier::in_all_threads();
        }
        fence(Ordering::SeqCst);
        while self.busy.load(Ordering::Acquire) {
            std::thread::sleep(PACE);
        }
        Turn {
            of: self,
            _guard: turn,
        }
    }
}

impl<T> Drop for Own<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.of.wanted.store(false, Ordering::Release);
    }
}

impl<T> Deref for Own<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the owner is busy, so no other thread has its turn; it has no second `Own`.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Own<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the owner is not busy and will not be, because the value is wanted; others have no turn.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.of.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 1_000_000;
    const OTHERS: u64 = 200;

    fn nothing_is_lost(light: bool) {
        let shared = Biased {
            light: light && by_kernel(),
            ..Biased::new(0u64)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..OWN {
                    // SAFETY: only this thread calls it, one at a time.
                    let mut value = unsafe { shared.own() };
                    *value = std::hint::black_box(*value) + 1;
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..OTHERS {
                        let mut value = shared.turn();
                        let before = *value;
                        std::thread::yield_now();
                        *value = before + 1;
                    }
                });
            }
        });
        assert_eq!(*shared.turn(), OWN + 2 * OTHERS);
    }

    #[test]
    fn one_thread_at_a_time_has_it() {
        nothing_is_lost(true);
        nothing_is_lost(false);
    }
}
