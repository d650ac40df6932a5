//! Starts the threads that run beside the deciding thread.

use crate::error::Error;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

/// Stack size of a background thread, bytes.
const STACK: usize = 256 * 1024;

/// Makes the eventfd that a background thread signals when it has results.
///
/// # Errors
/// [`Error::System`] when no descriptor can be created.
pub fn ready() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(Error::system(
        "eventfd failed; raise the limit of open files",
    ))
}

/// Starts a thread with this name.
///
/// # Errors
/// [`Error::System`] when the thread cannot be created.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|source| Error::System {
            what: "a thread could not be started; raise the limit of tasks",
            source,
        })
}
