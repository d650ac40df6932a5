//! A socket that speaks systemd's memory pressure protocol (systemd's MEMORY_PRESSURE document): a
//! program connects, waits for input, drains it and lets go of memory. The broker writes one byte to
//! each when the level rises; it never reads, never blocks, and forgets who does not drain.

use crate::error::Error;
use crate::own_name::OwnName;
use crate::server::connection::Peer;
use crate::server::listener::{accept, bind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Connections to one pressure socket at most; a program needs one, its children one each.
const MAX_LISTENERS: usize = 32;

/// The pressure socket of one principal.
#[derive(Debug)]
pub struct PressureSocket {
    name: OwnName,
    fd: OwnedFd,
    listeners: Vec<OwnedFd>,
}

impl PressureSocket {
    /// Binds it; only `everybody`'s broker lets other users connect (and then checks who).
    ///
    /// # Errors
    /// [`Error::Path`] that says what to do.
    pub fn bind(path: &Path, everybody: bool) -> Result<PressureSocket, Error> {
        let _ = std::fs::remove_file(path);
        let fd = bind(path, if everybody { 0o666 } else { 0o600 })?;
        Ok(PressureSocket {
            name: OwnName::new(path),
            fd,
            listeners: Vec::new(),
        })
    }

    /// Takes in whoever connects, when `may` allows it. The new one's descriptor, to watch for its
    /// leaving.
    pub fn accept(&mut self, may: impl Fn(Peer) -> bool) -> Option<BorrowedFd<'_>> {
        let (fd, peer) = accept(&self.fd).ok()??;
        if !may(peer) || self.listeners.len() >= MAX_LISTENERS {
            return None;
        }
        self.listeners.push(fd);
        self.listeners.last().map(AsFd::as_fd)
    }

    /// Forgets those who left.
    pub fn sweep(&mut self) {
        self.listeners.retain(|fd| {
            let mut watched = [PollFd::new(fd, PollFlags::RDHUP)];
            let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::RDHUP;
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut watched, Some(&now)).is_ok() && !watched[0].revents().intersects(gone)
        });
    }

    /// Wakes everybody. A listener that did not drain earlier bytes is awake already.
    pub fn wake(&mut self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.listeners.retain(|fd| {
            matches!(
                rustix::net::send(fd, b".", flags),
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS)
            )
        });
    }

    /// Where programs connect.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.name.path()
    }
}

impl AsFd for PressureSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
