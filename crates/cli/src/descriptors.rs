//! Descriptors that a background process must not keep, because others may wait for their end or
//! for a lock on them.

use plimsoll_kernel::descriptors;
use std::os::fd::RawFd;

/// The open descriptors other than the standard ones. Ours are closed on exec already; those that
/// we inherited (a lock, `9>/run/lock/job`) are not.
pub(crate) fn inherited() -> Vec<RawFd> {
    let open = descriptors::own().into_iter().flatten();
    open.filter(|&fd| fd > libc::STDERR_FILENO).collect()
}

/// Marks every descriptor but the standard ones to be closed on exec. Does not close them now,
/// because a failing exec is reported through one. Safe between fork and exec.
pub(crate) fn close_on_exec(open: &[RawFd]) {
    let (first, last) = (libc::STDERR_FILENO as libc::c_uint + 1, libc::c_uint::MAX);
    // SAFETY: flags of descriptors are changed, no memory; `syscall` and `fcntl` may be called
    // between fork and exec.
    unsafe {
        let flag = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, first, last, flag) == 0 {
            return;
        }
        // Linux before 5.11. A descriptor that is closed by now does no harm.
        for &fd in open {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
