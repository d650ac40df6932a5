//! The state of one registered thread.

use super::deferral::Deferral;
use super::joining::Joining;
use super::stack_use::StackUse;
use super::suspend::Suspension;
use crate::quantum::Turn;
use plimsoll_heap::Bins;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// The state of one registered thread. It is mapped when the thread is registered, so that no
/// `malloc` is involved; all zero is a valid state of each part.
pub(crate) struct Thread {
    /// Puts off a stop while the thread uses its bins.
    pub(crate) deferral: Deferral,
    pub(crate) bins: Bins,
    /// Bytes that the thread freed since the last collection.
    pub(crate) freed: AtomicUsize,
    /// Its use of the memory quantum, if there is one.
    pub(crate) turn: Turn,
    pub(crate) stack: StackUse,
    /// The number of the last stop that it answered.
    pub(crate) answered: AtomicU32,
    pub(crate) suspension: Suspension,
    /// The kernel's number of the thread, and its handle in the C library.
    pub(crate) id: libc::pid_t,
    pub(crate) pthread: libc::pthread_t,
    pub(crate) joining: Joining,
    /// The next thread of its list in `Threads`; changes under the collector's lock.
    pub(crate) next: *mut Thread,
}
