//! The state of one registered thread.

use crate::abi::variables::GC_stackbottom;
use crate::quantum::Turn;
use libc::c_void;
use plimsoll_heap::Bins;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The state of one registered thread. It is mapped when the thread is registered, so that no
/// `malloc` is involved.
pub(crate) struct Thread {
    /// The thread uses its bins, and must not be stopped now.
    pub(crate) busy: AtomicBool,
    /// A stop was requested while the thread was busy.
    pub(crate) wanted: AtomicBool,
    pub(crate) bins: Bins,
    /// Bytes that the thread freed since the last collection.
    pub(crate) freed: AtomicUsize,
    /// Its use of the memory quantum, if there is one.
    pub(crate) turn: Turn,
    /// The end (highest address) of its stack: see [`Thread::base`].
    pub(crate) base: AtomicUsize,
    /// This is the thread that used the collector first: the variable `GC_stackbottom` holds the
    /// end of its stack.
    pub(crate) first: bool,
    /// `stopped_at`: the thread's stack pointer when it was last stopped. `blocked_at`: the same
    /// when it began to block; 0 while it does not.
    pub(crate) stopped_at: AtomicUsize,
    pub(crate) blocked_at: AtomicUsize,
    /// `own`: the address range of its own stack, from the C library or the program. The other:
    /// that of a stack for signal handlers that the program registered. Both are zero if unknown.
    pub(crate) own: [AtomicUsize; 2],
    pub(crate) alternative: [AtomicUsize; 2],
    /// The parts of its stack in which it was blocked before it became active again further down.
    pub(crate) sections: *const Section,
    /// The number of the last stop that it answered.
    pub(crate) answered: AtomicU32,
    /// `suspended`: 1 while the program wants it to wait. `parked`: 1 while it does (`suspend`).
    pub(crate) suspended: AtomicU32,
    pub(crate) parked: AtomicU32,
    /// The kernel's number of the thread, and its handle in the C library.
    pub(crate) id: libc::pid_t,
    pub(crate) pthread: libc::pthread_t,
    /// Created through `GC_pthread_create`: kept until it is joined, for the value that it
    /// returned.
    pub(crate) created: bool,
    /// Nobody will join it.
    pub(crate) detached: bool,
    /// It has ended; only its result is kept.
    pub(crate) finished: bool,
    /// The value that it returned.
    pub(crate) result: *mut c_void,
    /// The next thread of its list in `Threads`; changes under the collector's lock.
    pub(crate) next: *mut Thread,
}

impl Thread {
    /// The end of its stack. Programs with several stacks per thread set it when they switch, for
    /// the first thread by a variable.
    pub(crate) fn base(&self) -> usize {
        if self.first {
            GC_stackbottom.get()
        } else {
            self.base.load(Relaxed)
        }
    }

    pub(crate) fn set_base(&self, base: usize) {
        if self.first {
            GC_stackbottom.set(base);
        } else {
            self.base.store(base, Relaxed);
        }
    }
}

/// A part of a stack that holds references although the thread is active again below it.
pub(crate) struct Section {
    /// The stack pointer when the thread began to block.
    pub(crate) blocked_at: usize,
    /// The section before this one, higher up on the stack.
    pub(crate) before: *const Section,
}

/// Stores an address range.
pub(crate) fn store(place: &[AtomicUsize; 2], range: Range<usize>) {
    place[0].store(range.start, Relaxed);
    place[1].store(range.end, Relaxed);
}
