//! The process's own memory, and the clock. Nothing here allocates, because it also runs inside
//! collections. No descriptor is kept open, because programs close or reuse descriptors that they
//! do not know.

pub use plimsoll_kernel::process::own::{Anonymous as Memory, anonymous as memory};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
