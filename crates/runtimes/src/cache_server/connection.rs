//! One connection to a server, by TCP or by a UNIX socket. Nothing is believed of the other end: no step
//! lasts beyond the deadline of its question, and of no answer more is read than [`MAX_ANSWER`].

use crate::process::Process;
use plimsoll_kernel::descriptors::path_of;
use plimsoll_kernel::peer::peer_of;
use plimsoll_kernel::sockets::Listens;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long one question may take, with its answer. A server may work on a command of another for a moment.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The most that is read of the answer to one question, bytes. A hundred replicas make 16 KiB of `INFO`.
pub(super) const MAX_ANSWER: usize = 256 << 10;
/// Bytes that are read at once.
const CHUNK: usize = 4096;
/// The pause between two tries where a server's queue of connections is full.
const PAUSE: Duration = Duration::from_millis(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("it did not answer within {} s", PATIENCE.as_secs())]
    Late,
    #[error("it closed the connection")]
    Closed,
    #[error("its answer is longer than {} KiB, or is none of this protocol", MAX_ANSWER >> 10)]
    Nonsense,
    #[error("another process answers at its socket {0}")]
    Stranger(String),
    #[error("{doing}: {source}")]
    System {
        doing: &'static str,
        source: io::Error,
    },
}

/// An open connection. After a [`Failed`] it is of no use: a late answer would be taken for the next one.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Read, but not taken yet.
    unread: Vec<u8>,
    /// Bytes of the present answer that may still be read.
    left: usize,
    /// When the present question is given up.
    deadline: Instant,
}

impl Connection {
    /// Connects to a process where it listens.
    pub(super) fn open(process: &Process, listens: &Listens) -> Result<Connection, Failed> {
        let deadline = Instant::now() + PATIENCE;
        let socket = match listens {
            Listens::Tcp(address) => by_tcp(*address)?,
            Listens::Path(path) => by_path(process, path, deadline)?,
        };
        Ok(Connection {
            socket,
            unread: Vec::new(),
            left: 0,
            deadline,
        })
    }

    /// Sends a question. From here on the time of its answer counts.
    pub(super) fn ask(&mut self, question: &[u8]) -> Result<(), Failed> {
        self.deadline = Instant::now() + PATIENCE;
        self.left = MAX_ANSWER;
        self.unread.clear();
        let mut sent = 0;
        while sent < question.len() {
            match rustix::net::send(&self.socket, &question[sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => sent += bytes,
                Err(Errno::AGAIN) => self.ready(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Failed::Closed),
                Err(error) => return Err(system("writing to it")(error)),
            }
        }
        Ok(())
    }

    /// The next line of the answer, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, Failed> {
        let mut looked = 0;
        loop {
            let end = self.unread[looked..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end {
                let mut line: Vec<u8> = self.unread.drain(..=looked + end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            looked = self.unread.len();
            self.read()?;
        }
    }

    /// The next bytes of the answer, as many as this.
    pub(super) fn exactly(&mut self, bytes: usize) -> Result<Vec<u8>, Failed> {
        if bytes > MAX_ANSWER {
            return Err(Failed::Nonsense);
        }
        while self.unread.len() < bytes {
            self.read()?;
        }
        Ok(self.unread.drain(..bytes).collect())
    }

    /// Reads what is there, or waits for it.
    fn read(&mut self) -> Result<(), Failed> {
        let mut chunk = [0; CHUNK];
        loop {
            // One that sends without end is also always ready.
            if Instant::now() >= self.deadline {
                return Err(Failed::Late);
            }
            match rustix::io::read(&self.socket, &mut chunk) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(Failed::Closed),
                Ok(bytes) => {
                    self.left = self.left.checked_sub(bytes).ok_or(Failed::Nonsense)?;
                    self.unread.extend_from_slice(&chunk[..bytes]);
                    return Ok(());
                }
                Err(Errno::AGAIN) => self.ready(PollFlags::IN)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(system("reading from it")(error)),
            }
        }
    }

    /// Waits until the socket is ready.
    fn ready(&self, flags: PollFlags) -> Result<(), Failed> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(0) => Err(Failed::Late),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(system("waiting for it")(error)),
        }
    }
}

fn system(doing: &'static str) -> impl Fn(Errno) -> Failed {
    move |error| Failed::System {
        doing,
        source: error.into(),
    }
}

/// Connects to a port. One that listens at all addresses is reached at our own.
fn by_tcp(address: SocketAddr) -> Result<OwnedFd, Failed> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    let address = SocketAddr::new(ip, address.port());
    let connected = TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
        stream.set_nonblocking(true)?;
        // Questions are small, and each waits for its answer.
        stream.set_nodelay(true)?;
        Ok(stream)
    });
    let failed = |source| Failed::System {
        doing: "connecting to it",
        source,
    };
    Ok(connected.map_err(failed)?.into())
}

/// Connects to a socket below the root of a process, which may be a container's. A name there may lead to
/// another program's socket, which would take our commands. So nothing is said before the kernel tells that
/// this very process listens.
fn by_path(process: &Process, path: &Path, deadline: Instant) -> Result<OwnedFd, Failed> {
    let connecting = system("connecting to it");
    let parent = path.parent().and_then(Path::to_str);
    let (Some(folder), Some(name)) = (parent, path.file_name()) else {
        return Err(connecting(Errno::INVAL));
    };
    let opened = process.inner_directory(folder);
    let folder = opened.map_err(|source| Failed::System {
        doing: "opening the folder of its socket",
        source,
    })?;
    let place = path_of(&folder).join(name);
    let address = SocketAddrUnix::new(place).map_err(&connecting)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = made.map_err(&connecting)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            Err(Errno::AGAIN) => return Err(Failed::Late),
            Err(error) => return Err(connecting(error)),
        }
    }
    let peer = peer_of(&socket).map_err(&connecting)?;
    if peer.pid == process.pid {
        Ok(socket)
    } else {
        Err(Failed::Stranger(path.display().to_string()))
    }
}
