//! Descriptors that a process in the background must not keep: somebody may wait for their end, or
//! for a lock on them.

use std::os::fd::RawFd;

/// The descriptors that are open beside the standard ones. What we open ourselves is closed on
/// exec; what whoever started us left open (a lock, `9>/run/lock/job`) is not.
pub(crate) fn inherited() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok())
        .filter(|&fd| fd > libc::STDERR_FILENO)
        .collect()
}

/// Has every descriptor but the standard ones closed on exec: not before, because an exec that
/// fails is told through one. Safe between fork and exec.
pub(crate) fn close_on_exec(open: &[RawFd]) {
    let (first, last) = (libc::STDERR_FILENO as libc::c_uint + 1, libc::c_uint::MAX);
    // SAFETY: flags of descriptors are changed, no memory; `syscall` and `fcntl` may be called
    // between fork and exec.
    unsafe {
        let flag = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, first, last, flag) == 0 {
            return;
        }
        // Linux before 5.11. One that is closed by now is no matter.
        for &fd in open {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
