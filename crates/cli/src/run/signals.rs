//! Signals as a file to poll. There are no handlers, so nothing is interrupted and no signal is
//! lost.

use crate::error::CliError;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that `run` receives and passes on to its program.
pub const FORWARDED: [i32; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Whether it came from the terminal (or the kernel), which sends to the whole foreground
    /// process group, so that our children got it too. Others (`kill`) send to us alone.
    pub from_terminal: bool,
}

/// Signals that are blocked for this process and read from a file instead. Signals that were
/// ignored when we started (`nohup`, a shell's background) stay ignored; if blocked, they would be
/// delivered to the file.
#[derive(Debug)]
pub struct Signals {
    file: OwnedFd,
}

/// Unblocks all signals, because a child must not inherit the block. Safe between fork and exec.
pub fn unblock_all() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, `sigprocmask` only reads it; both may be called
    // between fork and exec.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut found = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: where no action is given, the present one is only written to `found`.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) == 0
            && found.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

impl Signals {
    /// Blocks these signals for this thread and all threads that it starts later, so call it first.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn block(signals: &[i32]) -> Result<Signals, CliError> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set before anything reads it; the numbers are valid
        // signals; a fresh descriptor is owned by nobody else.
        let file = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for &signal in signals.iter().filter(|&&signal| !is_ignored(signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if file < 0 {
            let error = io::Error::last_os_error();
            return Err(CliError::system("signals cannot be read from a file")(
                error,
            ));
        }
        // SAFETY: `signalfd` returned it just now.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(Signals { file })
    }

    /// The next signal that came, if any.
    pub fn next(&self) -> Option<Received> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has `size` bytes; every bit pattern is a valid `signalfd_siginfo`.
        let (read, info) = unsafe {
            (
                libc::read(self.file.as_raw_fd(), info.as_mut_ptr().cast(), size),
                info.assume_init(),
            )
        };
        (read == size as isize).then_some(Received {
            signal: info.ssi_signo as i32,
            from_terminal: info.ssi_code > 0,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
