//! A socket that speaks systemd's memory pressure protocol (systemd's MEMORY_PRESSURE document). A
//! program connects, waits for input, drains it and releases memory. The broker writes one byte to
//! each listener when the level rises. It never reads or blocks, and drops listeners to which it
//! cannot send; one that does not drain is awake already and is kept.

use crate::error::Error;
use crate::owned_path::OwnedPath;
use crate::server::connection::Peer;
use crate::server::listener::{accept, bind, make_directory};
use crate::server::users::Listening;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Most connections to one pressure socket; a program and each of its children need one.
const MAX_LISTENERS: usize = 32;

/// The pressure socket of one principal.
#[derive(Debug)]
pub struct PressureSocket {
    /// Its file.
    name: OwnedPath,
    /// The listening socket.
    fd: OwnedFd,
    /// The connected programs, at most [`MAX_LISTENERS`].
    listeners: Vec<Listener>,
}

/// One connected program.
#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    /// Counts the connection against its user.
    _counted: Listening,
}

impl PressureSocket {
    /// Makes the directory of all pressure sockets and removes those of a killed broker.
    ///
    /// # Errors
    /// As [`make_directory`].
    pub fn make_directory(path: &Path, everybody: bool) -> Result<(), Error> {
        make_directory(path, everybody)?;
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".sock"));
            let ours = number.is_some_and(|number| number.parse::<u64>().is_ok());
            if ours && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Binds the socket. Only the broker for `everybody` lets other users connect, and checks them
    /// then.
    ///
    /// # Errors
    /// [`Error::Path`] that says what to do.
    pub fn bind(path: &Path, everybody: bool) -> Result<PressureSocket, Error> {
        let _ = std::fs::remove_file(path);
        let fd = bind(path, if everybody { 0o666 } else { 0o600 })?;
        Ok(PressureSocket {
            name: OwnedPath::new(path),
            fd,
            listeners: Vec::new(),
        })
    }

    /// Accepts a connection if `admit` counts it, and closes it at once otherwise. Returns the new
    /// descriptor, to be watched for its end.
    ///
    /// # Errors
    /// The kernel's error, most likely no free descriptor; the caller tries again later.
    pub fn accept(
        &mut self,
        admit: impl FnOnce(Peer) -> Option<Listening>,
    ) -> rustix::io::Result<Option<BorrowedFd<'_>>> {
        let Some((fd, peer)) = accept(&self.fd)? else {
            return Ok(None);
        };
        if self.listeners.len() >= MAX_LISTENERS {
            return Ok(None);
        }
        let Some(counted) = admit(peer) else {
            return Ok(None);
        };
        self.listeners.push(Listener {
            fd,
            _counted: counted,
        });
        Ok(self.listeners.last().map(|listener| listener.fd.as_fd()))
    }

    /// Drops closed connections.
    pub fn sweep(&mut self) {
        self.listeners.retain(|listener| {
            let mut watched = [PollFd::new(&listener.fd, PollFlags::RDHUP)];
            let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::RDHUP;
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut watched, Some(&now)).is_ok() && !watched[0].revents().intersects(gone)
        });
    }

    /// Wakes all listeners. A listener that did not drain earlier bytes is awake already.
    pub fn wake(&mut self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.listeners.retain(|listener| {
            matches!(
                rustix::net::send(&listener.fd, b".", flags),
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS)
            )
        });
    }

    /// Path at which programs connect.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::users::Users;
    use plimsoll_unit::Nanos;
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_listens_is_bounded_by_socket_and_by_user_and_others_are_closed_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.sock");
        let mut socket = PressureSocket::bind(&path, false).unwrap();
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let is_open = |stream: &mut UnixStream| {
            let read = stream.read(&mut [0]).map_err(|error| error.kind());
            read == Err(ErrorKind::WouldBlock)
        };
        let user = Users::new(0).get(7, Nanos(1));
        assert!(socket.accept(|_| None).unwrap().is_none(), "nobody comes");
        let mut kept: Vec<UnixStream> = (0..MAX_LISTENERS)
            .map(|_| {
                let stream = connect();
                let accepted = socket.accept(|_| Listening::begin(&user, MAX_LISTENERS));
                assert!(accepted.unwrap().is_some());
                stream
            })
            .collect();
        let mut beyond = connect();
        let accepted = socket.accept(|_| Listening::begin(&user, usize::MAX));
        assert!(accepted.unwrap().is_none() && !is_open(&mut beyond));
        drop(kept.pop());
        socket.sweep();
        let mut refused = connect();
        let most = MAX_LISTENERS - 1;
        let accepted = socket.accept(|_| Listening::begin(&user, most));
        assert!(accepted.unwrap().is_none() && !is_open(&mut refused));
        let mut again = connect();
        let accepted = socket.accept(|_| Listening::begin(&user, MAX_LISTENERS));
        assert!(accepted.unwrap().is_some() && is_open(&mut again));
        socket.wake();
        assert!(kept.iter_mut().all(|stream| !is_open(stream)));
    }
}
