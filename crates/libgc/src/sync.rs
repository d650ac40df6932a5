//! Atomics and waits of threads. Models of these protocols (`tests/model.rs`) put their own in their place.

pub(crate) use rustix::thread::futex;
pub(crate) use rustix::time::Timespec;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// How often a thread checks whether a lock is free before it sleeps. This takes about as long as
/// a wake-up, and most holders free the lock much sooner.
pub(crate) const SPINS: u32 = 400;
