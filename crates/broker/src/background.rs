//! The threads beside the one that decides.

use crate::error::Error;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

/// Stack of such a thread, bytes.
const STACK: usize = 256 * 1024;

/// What such a thread writes to when it has done something.
///
/// # Errors
/// [`Error::System`] when there is no descriptor to be had.
pub fn ready() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(Error::system(
        "eventfd failed; raise the limit of open files",
    ))
}

/// Starts a thread of that name.
///
/// # Errors
/// [`Error::System`] when there is none to be had.
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
