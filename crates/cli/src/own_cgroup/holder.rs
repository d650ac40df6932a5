//! The first process of a scope. systemd makes a scope around a process, and ends the scope when it is empty.
//! So a process that does nothing is there from before the first program until we end or the scope is not
//! needed any more. We do not enter ourselves: a person may log out while we run, and systemd then ends the
//! scopes of that person, but not the session that still has a process.

use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The process. It ends when this is dropped, and when we end.
#[derive(Debug)]
pub(super) struct Holder {
    /// Its number.
    pid: libc::pid_t,
    /// It ends when this end of a pipe is closed.
    life: Option<OwnedFd>,
}

impl Holder {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no process to be had.
    pub(super) fn start() -> io::Result<Holder> {
        let (ends, life) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the child calls only `close_range`, `read` and `_exit`, which may be called in a child
        // of a program with threads; its copies of our memory are not written.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => hold(ends.as_raw_fd(), life.as_raw_fd()),
            pid => Ok(Holder {
                pid,
                life: Some(life),
            }),
        }
    }

    /// Its number.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.life = None;
        // SAFETY: the process is a child of ours that nobody else waits for. It has nothing to put in order,
        // and may be stopped.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Waits until the other end of the pipe, `life`, is closed, or the service manager ends the scope.
fn hold(pipe: i32, life: i32) -> ! {
    let pipe = pipe.unsigned_abs();
    let mut byte = 0u8;
    // SAFETY: the calls take numbers and a buffer of one byte. Every descriptor but the pipe is closed: those
    // of our terminal and files must not stay open because of us, and the copy of the pipe's other end would
    // keep us here for ever.
    unsafe {
        libc::close(life);
        libc::setsid();
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if pipe > 0 {
            libc::syscall(libc::SYS_close_range, 0, pipe - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, pipe + 1, u32::MAX, 0);
        while libc::read(pipe as i32, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::process::exists;

    #[test]
    fn it_lives_as_long_as_it_is_held() {
        let holder = Holder::start().unwrap();
        let pid = holder.pid().unsigned_abs();
        assert!(exists(pid));
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
        // A moment after the fork the descriptors are still closing.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while open.is_ok()
            && std::fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .count()
                > 1
            && std::time::Instant::now() < patience
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(
            std::fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .count(),
            1
        );
        drop(holder);
        assert!(!exists(pid));
    }
}
