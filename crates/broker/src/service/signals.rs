//! SIGHUP, SIGTERM and SIGINT as a readable descriptor.

use crate::error::Error;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals for the broker. A handler only sets a flag and writes one byte.
#[derive(Debug)]
pub struct Signals {
    /// Readable after a signal.
    wake: UnixStream,
    /// SIGHUP came. Set by the handler, cleared by the deciding thread.
    reload: Arc<AtomicBool>,
    /// SIGTERM or SIGINT came. Set by the handler.
    leave: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn new() -> Result<Signals, Error> {
        let failed = |source| Error::System {
            what: "signal handlers could not be set",
            source,
        };
        let (wake, writer) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let signals = Signals {
            wake,
            reload: Arc::default(),
            leave: Arc::default(),
        };
        let wanted = [
            (libc::SIGHUP, &signals.reload),
            (libc::SIGTERM, &signals.leave),
            (libc::SIGINT, &signals.leave),
        ];
        for (signal, flag) in wanted {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(failed)?;
            let writer = writer.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, writer).map_err(failed)?;
        }
        leave_orphans_to_the_kernel();
        Ok(signals)
    }

    /// Signals since the last call: (reload, exit).
    pub fn take(&mut self) -> (bool, bool) {
        let mut buffer = [0; 64];
        while matches!(self.wake.read(&mut buffer), Ok(count) if count == buffer.len()) {}
        (
            self.reload.swap(false, Ordering::Relaxed),
            self.leave.load(Ordering::Relaxed),
        )
    }
}

/// The first process of a container is the parent of each process whose own parent has ended. The broker
/// waits for no child, so there the kernel may take the zombies away.
fn leave_orphans_to_the_kernel() {
    if std::process::id() == 1 {
        // SAFETY: no handler is set, so nothing of ours runs when a child ends.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
