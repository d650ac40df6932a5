//! A blocking Varlink client. Every call has a deadline, whatever the other side does.

mod calls;
mod stream;

pub use stream::Stream;

use crate::socket::{Socket, Surroundings};
use crate::{Error, Result};
use plimsoll_wire::varlink::{Decoder, MAX_REPLY, Mode, Reply, WireError, encode_call};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    connect, recv, send, shutdown, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a call may take, unless the connection was opened with another timeout.
pub const TIMEOUT: Duration = Duration::from_secs(2);
const CHUNK: usize = 8192;
/// The pause between two tries to connect while the broker's queue of connections is full.
const QUEUE_FULL: Duration = Duration::from_millis(10);

/// One connection to a broker. After a timeout or an answer that breaks the protocol it is closed
/// for good, because the next answer could belong to another call.
#[derive(Debug)]
pub struct Connection {
    /// The socket, which does not block.
    fd: OwnedFd,
    /// Where the broker was found.
    socket: Socket,
    /// Bytes received, and the messages in them.
    decoder: Decoder,
    /// The message to be sent; kept so that its memory is used again.
    out: Vec<u8>,
    /// Longest wait for an answer.
    timeout: Duration,
    /// Whether the connection was closed for good.
    broken: bool,
}

impl Connection {
    /// Connects to the first broker that answers, see [`Socket::candidates`].
    ///
    /// # Errors
    /// [`Error::NoBroker`] if none answers; [`Error::Untrusted`] if only untrusted processes
    /// listen.
    pub fn find() -> Result<Connection> {
        Connection::first(&Socket::candidates(&Surroundings::of_self()), TIMEOUT)
    }

    /// Connects to the first of these sockets that answers and can be trusted. An untrusted
    /// listener at one place does not keep us from the next.
    ///
    /// # Errors
    /// As [`Connection::find`].
    pub fn first(candidates: &[Socket], timeout: Duration) -> Result<Connection> {
        let mut refused = None;
        for socket in candidates {
            match Connection::open(socket, timeout) {
                Ok(connection) => return Ok(connection),
                Err(error @ Error::Untrusted { .. }) => refused = refused.or(Some(error)),
                Err(_) => {}
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        let tried: Vec<_> = candidates
            .iter()
            .map(|s| s.path().display().to_string())
            .collect();
        Err(Error::NoBroker {
            tried: tried.join(", "),
        })
    }

    /// Connects. `timeout` bounds this and every later call.
    ///
    /// # Errors
    /// [`Error::Socket`], [`Error::Timeout`], [`Error::Untrusted`].
    pub fn open(socket: &Socket, timeout: Duration) -> Result<Connection> {
        socket.check_directory()?;
        let fault = |errno: Errno| Error::Socket {
            doing: "connect to",
            path: socket.path().to_owned(),
            source: errno.into(),
        };
        let address = SocketAddrUnix::new(socket.path()).map_err(fault)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(fault)?;
        let deadline = after(timeout);
        loop {
            match connect(&fd, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(QUEUE_FULL),
                Err(errno) => return Err(fault(errno)),
            }
        }
        socket.check_peer(fd.as_fd())?;
        Ok(Connection {
            fd,
            socket: socket.clone(),
            decoder: Decoder::new(MAX_REPLY),
            out: Vec::new(),
            timeout,
            broken: false,
        })
    }

    /// The socket that it is connected to.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether it is closed for good.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Makes any call with one answer.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn call<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &str,
        parameters: &P,
    ) -> Result<R> {
        self.send(method, parameters, Mode::Once)?;
        let deadline = after(self.timeout);
        match self.receive(deadline)? {
            Some((answer, false)) => answer,
            Some((_, true)) => {
                self.broken = true;
                Err(self.protocol("more than one answer to a call that wants one"))
            }
            None => {
                self.broken = true;
                Err(self.late())
            }
        }
    }

    fn send<P: Serialize>(&mut self, method: &str, parameters: &P, mode: Mode) -> Result<()> {
        if self.broken {
            return Err(self.closed());
        }
        self.out.clear();
        encode_call(&mut self.out, method, parameters, mode)?;
        let result = self.send_out();
        self.broken |= result.is_err();
        result
    }

    fn send_out(&self) -> Result<()> {
        let deadline = after(self.timeout);
        let mut sent = 0;
        while sent < self.out.len() {
            match send(&self.fd, &self.out[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.ready(PollFlags::OUT, deadline)? {
                        return Err(self.late());
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.closed()),
                Err(errno) => return Err(self.fault("send to", errno)),
            }
        }
        Ok(())
    }

    /// The next answer and whether more follow; `None` if none came by `deadline`.
    fn receive<R: DeserializeOwned>(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<(Result<R>, bool)>> {
        if self.broken {
            return Err(self.closed());
        }
        let result = self.receive_one(deadline);
        self.broken |= result.is_err();
        result
    }

    fn receive_one<R: DeserializeOwned>(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<(Result<R>, bool)>> {
        let mut chunk = [0u8; CHUNK];
        let mut late = false;
        loop {
            match self.decoder.next_message() {
                Ok(Some(message)) => return decode(message, self.socket.path()).map(Some),
                Ok(None) if late => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(self.protocol(&error.to_string())),
            }
            match recv(&self.fd, &mut chunk[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(self.closed()),
                Ok((count, _)) => self.decoder.push(&chunk[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.ready(PollFlags::IN, deadline)? {
                        return Ok(None);
                    }
                }
                Err(errno) => return Err(self.fault("receive from", errno)),
            }
            // One that sends parts without end is not waited for; a message that is there now is taken.
            late = Instant::now() > deadline && self.decoder.pending() > 0;
        }
    }

    /// Waits until the socket is ready; false if it is not by `deadline`.
    fn ready(&self, flags: PollFlags, deadline: Instant) -> Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.fd, flags)];
            match poll(&mut fds, Some(&left)) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.fault("wait for", errno)),
            }
        }
    }

    /// Ends it for the broker, too, where a forked child has a copy of the descriptor.
    pub(crate) fn hang_up(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    fn fault(&self, doing: &'static str, errno: Errno) -> Error {
        Error::Socket {
            doing,
            path: self.socket.path().to_owned(),
            source: errno.into(),
        }
    }

    fn closed(&self) -> Error {
        Error::Closed {
            path: self.socket.path().to_owned(),
        }
    }

    fn late(&self) -> Error {
        Error::Timeout {
            path: self.socket.path().to_owned(),
            after: self.timeout,
        }
    }

    fn protocol(&self, why: &str) -> Error {
        Error::Protocol {
            path: self.socket.path().to_owned(),
            why: why.to_owned(),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The end of this timeout, at most a day from now, because callers may mean "for ever".
fn after(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(86_400))
}

/// Decodes an answer. The outer error means a breach of the protocol, the inner one a refusal.
fn decode<R: DeserializeOwned>(message: &[u8], path: &Path) -> Result<(Result<R>, bool)> {
    let against = |error: WireError| Error::Protocol {
        path: path.to_owned(),
        why: error.message,
    };
    let reply = Reply::parse(message).map_err(against)?;
    match reply.result() {
        Ok(answer) => Ok((Ok(answer), reply.continues)),
        Err(error) if reply.error.is_some() => Ok((Err(Error::Refused(error)), false)),
        Err(error) => Err(against(error)),
    }
}
