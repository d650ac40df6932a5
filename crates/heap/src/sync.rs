//! Locks and counters of threads. Models of these protocols (`tests/model.rs`) put their own in its place.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
