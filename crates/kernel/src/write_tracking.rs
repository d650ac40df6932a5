//! Tracks writes by userfaultfd's asynchronous write protection (Linux 6.7). Source: kernel
//! document `admin-guide/mm/userfaultfd.rst`. Nothing here allocates. [`crate::pagemap_scan`] arms pages
//! and shows which were written to.

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

const API: u64 = 0xaa;
const WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 2;
/// Restricts the descriptor to faults in user mode, which needs no privilege. The kernel resolves
/// its own faults in this mode.
const USER_MODE_ONLY: u32 = 1;

/// `struct uffdio_api`.
#[repr(C)]
struct Hello {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct Protect {
    start: u64,
    bytes: u64,
    mode: u64,
}

const PROTECT: Opcode = opcode::read_write::<Protect>(0xaa, 0x06);
const HELLO: Opcode = opcode::read_write::<Hello>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0x00);

/// A tracker; closing it ends the tracking.
///
/// # Errors
/// `ENOSYS` or `EPERM` where a container's profile refuses the call (or the kernel was built
/// without it), `EINVAL` before Linux 6.7.
pub fn new() -> io::Result<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC
        | UserfaultfdFlags::NONBLOCK
        | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: only asynchronous write protection is asked of it, which changes what no access does.
    let fd = unsafe { userfaultfd(flags)? };
    let mut hello = Hello {
        api: API,
        features: WP_ASYNC,
        ioctls: 0,
    };
    // SAFETY: the request reads and writes this structure.
    unsafe { ioctl(&fd, Updater::<HELLO, Hello>::new(&mut hello))? };
    // Move the descriptor away from low numbers: some programs rely on the next free number, or
    // close all that they know.
    match rustix::io::fcntl_dupfd_cloexec(&fd, 900) {
        Ok(high) => Ok(high),
        Err(_) => Ok(fd),
    }
}

/// Starts tracking a range.
///
/// # Errors
/// The range is tracked by somebody else, or is of a kind that cannot be tracked.
pub fn register(tracker: impl AsFd, range: Range<usize>) -> io::Result<()> {
    let mut register = Register {
        start: range.start as u64,
        bytes: range.len() as u64,
        mode: MODE_WP,
        ioctls: 0,
    };
    // SAFETY: the request reads and writes this structure; tracking changes no contents.
    unsafe { ioctl(tracker, Updater::<REGISTER, Register>::new(&mut register))? };
    Ok(())
}

/// Disarms the pages of a tracked range. The next write to each causes no fault, and they count as
/// written to.
///
/// # Errors
/// The range is not tracked.
pub fn disarm(tracker: impl AsFd, range: Range<usize>) -> io::Result<()> {
    let mut protect = Protect {
        start: range.start as u64,
        bytes: range.len() as u64,
        mode: 0,
    };
    // SAFETY: the request reads this structure; it changes no contents.
    unsafe { ioctl(tracker, Updater::<PROTECT, Protect>::new(&mut protect))? };
    Ok(())
}
