//! Threads that do not disturb the host program.

use crate::{Error, Result};
use std::thread::{Builder, JoinHandle};

/// The stack of a thread, bytes of address space. About a tenth is touched.
const STACK: usize = 256 * 1024;

/// Starts a thread with a small stack that takes no signals meant for the program. Only its own
/// faults are not blocked: a blocked SIGBUS would kill the process where the guard could have
/// repaired the page.
///
/// # Errors
/// [`Error::Resource`] when the kernel gives no thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let before = block_signals();
    let thread = Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn(run);
    // SAFETY: `before` is the mask that `block_signals` read on this very thread.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    thread.map_err(|source| Error::Resource {
        doing: "start a thread",
        source,
    })
}

/// Blocks all signals but faults on this thread and on those that it starts later. Returns the old
/// mask.
fn block_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data; sigfillset initialises `all` before it is used, and
    // pthread_sigmask fills `before` and touches this thread only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for fault in [
            libc::SIGBUS,
            libc::SIGSEGV,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
        ] {
            libc::sigdelset(&raw mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}
