//! The ghost list: `plimsoll_ghost_…` of the header.

use crate::failure::{Failure, guarded};
use plimsoll_client::{Bytes, Ghost, Nanos};
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The list, and when it was made: its time begins there.
pub struct Handle {
    ghost: Mutex<Ghost>,
    made: Instant,
}

impl Handle {
    fn with<T>(&self, work: impl FnOnce(&mut Ghost) -> T) -> T {
        work(&mut self.ghost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// See `plimsoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_ghost_new() -> *mut Handle {
    let mut handle = std::ptr::null_mut();
    guarded(|| {
        handle = Box::into_raw(Box::new(Handle {
            ghost: Mutex::new(Ghost::new(Nanos::ZERO)),
            made: Instant::now(),
        }));
        Ok(0)
    });
    handle
}

/// See `plimsoll.h`.
///
/// # Safety
/// `handle` is null or from [`plimsoll_ghost_new`] and not freed. So for all that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_ghost_evicted(
    handle: *mut Handle,
    key: u64,
    bytes: u64,
    left: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { there(handle)? };
        handle.with(|ghost| ghost.evicted(key, Bytes(bytes), Bytes(left)));
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_ghost_evicted`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_ghost_missed(
    handle: *mut Handle,
    key: u64,
    cost_ns: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { there(handle)? };
        handle.with(|ghost| ghost.missed(key, Nanos(cost_ns)));
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_ghost_evicted`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_ghost_worth(handle: *mut Handle) -> u64 {
    let mut worth = None;
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { there(handle)? };
        let now = Nanos::from(handle.made.elapsed());
        worth = handle.with(|ghost| ghost.worth(now));
        Ok(0)
    });
    worth.unwrap_or(crate::structs::UNKNOWN)
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_ghost_evicted`]; it is used no more, by no thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_ghost_free(handle: *mut Handle) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: the caller's promise: made by Box::into_raw, and ours again.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(0)
    });
}

/// # Safety
/// As [`plimsoll_ghost_evicted`].
unsafe fn there<'a>(handle: *const Handle) -> Result<&'a Handle, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }
        .ok_or_else(|| Failure::invalid("the ghost list is null: plimsoll_ghost_new() gives one"))
}
