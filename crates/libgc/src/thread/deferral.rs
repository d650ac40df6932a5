//! Puts off a stop of a thread while that thread changes its bins.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

/// Whether a thread uses its bins, and whether a stop came meanwhile. Used by the thread and by its signal
/// handler, so the fences bind only the compiler.
pub(crate) struct Deferral {
    /// The thread uses its bins, and must not be stopped now.
    busy: AtomicBool,
    /// A stop was requested while the thread was busy.
    wanted: AtomicBool,
}

impl Deferral {
    /// From here to [`leave`](Deferral::leave), stops are put off.
    #[inline(always)]
    pub(super) fn enter(&self) {
        self.busy.store(true, Relaxed);
        compiler_fence(SeqCst);
    }

    /// From here on, the thread may be stopped again. True if a stop was requested meanwhile.
    #[inline(always)]
    pub(super) fn leave(&self) -> bool {
        compiler_fence(SeqCst);
        self.busy.store(false, Relaxed);
        compiler_fence(SeqCst);
        self.wanted.load(Relaxed)
    }

    /// The thread requests the stop again that was put off.
    pub(super) fn ask_again(&self) {
        self.wanted.store(false, Relaxed);
    }

    /// Called in the signal handler. True if the stop is put off.
    pub(super) fn puts_off(&self) -> bool {
        let busy = self.is_busy();
        if busy {
            self.wanted.store(true, Relaxed);
        }
        busy
    }

    /// Whether the thread is changing its bins.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }
}
