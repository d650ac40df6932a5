//! The listening socket: permission to bind it, stale sockets, and credentials of peers.

use crate::error::Error;
use crate::options::{Paths, directory_of};
use crate::owned_path::OwnedPath;
use plimsoll_kernel::peer::{Peer, peer_of};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

const BACKLOG: i32 = 128;
/// Send buffer in bytes for a peer that does not read; the kernel doubles the value. The kernel's
/// default would use six times as much of the broker's memory for each connection.
const SEND_BUFFER: usize = 16 << 10;
/// Name of the lock file in a broker's directory. It holds the broker's process id and tag.
pub const LOCK: &str = "broker.lock";

/// The listening socket, and the lock that marks the directory as ours.
#[derive(Debug)]
pub struct Listener {
    /// Removed when the broker ends; `None` when the service manager holds it.
    _name: Option<OwnedPath>,
    /// The listening socket.
    fd: OwnedFd,
    /// The lock of the broker's directory.
    lock: Lock,
}

/// The lock that marks a directory as ours. Held as long as the broker lives; the kernel releases
/// it however the broker ends.
#[derive(Debug)]
pub struct Lock {
    /// Stays when the broker ends: another broker may wait for this very file.
    name: ManuallyDrop<OwnedPath>,
    /// The open file, on which the lock is.
    _fd: OwnedFd,
    /// Distinguishes this broker's cgroups and pages from those of other brokers.
    tag: u32,
}

impl Listener {
    /// Takes the socket from the service manager, or binds it: makes the directory, takes the lock,
    /// and replaces a stale socket.
    ///
    /// # Errors
    /// [`Error::Taken`] when another broker serves it, [`Error::Unsafe`] when others may write to
    /// the directory, [`Error::Path`] for everything that the file system refuses.
    pub fn open(paths: &Paths, everybody: bool) -> Result<Listener, Error> {
        if paths.directory == directory_of(&paths.socket) {
            // Every user who may write to the socket's directory could put another socket there.
            make_directory(paths.socket.parent().unwrap_or(Path::new("/")), everybody)?;
        }
        make_directory(&paths.directory, everybody)?;
        let lock = take_lock(&paths.directory, &paths.socket)?;
        if let Some(fd) = inherited()? {
            return Ok(Listener {
                _name: None,
                fd,
                lock,
            });
        }
        remove_stale(&paths.socket)?;
        let fd = bind(&paths.socket, if everybody { 0o666 } else { 0o600 })?;
        Ok(Listener {
            _name: Some(OwnedPath::new(&paths.socket)),
            fd,
            lock,
        })
    }

    /// The next connection, non-blocking; `None` when none waits.
    ///
    /// # Errors
    /// The kernel's error, most likely no free descriptor; the caller tries again later.
    pub fn accept(&self) -> rustix::io::Result<Option<(OwnedFd, Peer)>> {
        accept(&self.fd)
    }

    /// Whether the directory is still ours: nobody removed or replaced it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.lock.is_ours()
    }

    /// Ends the socket. The directory stays ours as long as the lock is held.
    #[must_use]
    pub fn close(self) -> Lock {
        // The file is open while its name goes: see `OwnedPath`.
        drop(self._name);
        drop(self.fd);
        self.lock
    }

    /// A number that distinguishes this broker's leftovers from those of brokers with other
    /// directories.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.lock.tag
    }
}

impl Lock {
    /// As [`Listener::is_ours`].
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name.is_ours()
    }
}

/// FNV-1a over the directory's path and the inode number of the lock in it: the same after a crash,
/// different when the directory was made again.
#[must_use]
pub fn tag_of(directory: &Path, lock: u64) -> u32 {
    let path = directory.as_os_str().as_encoded_bytes();
    let bytes = path.iter().copied().chain(lock.to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Accepts one connection; `None` when none waits or the peer has already left.
///
/// # Errors
/// As [`Listener::accept`].
pub fn accept(fd: &impl AsFd) -> rustix::io::Result<Option<(OwnedFd, Peer)>> {
    match rustix::net::accept_with(fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(fd) => {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
            Ok(peer_of(&fd).ok().map(|peer| (fd, peer)))
        }
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Binds a listening, non-blocking UNIX stream socket with these permissions.
///
/// # Errors
/// [`Error::Path`] that says what to do.
pub fn bind(path: &Path, mode: u32) -> Result<OwnedFd, Error> {
    let address = SocketAddrUnix::new(path).map_err(|errno| {
        Error::path(
            path,
            "the path is too long for a socket (107 bytes at most); give a shorter `--socket`",
            errno,
        )
    })?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(Error::system(
            "a socket could not be made; raise the limit of open files",
        ))?;
    let refused =
        |errno: Errno| Error::path(path, advice(errno, "the socket cannot be bound"), errno);
    rustix::net::bind(&fd, &address).map_err(refused)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|source| Error::path(path, "the socket's permissions cannot be set", source))?;
    rustix::net::listen(&fd, BACKLOG).map_err(refused)?;
    Ok(fd)
}

/// Advice for an errno on a path.
pub fn advice(errno: Errno, what: &str) -> String {
    let todo = match errno {
        Errno::ROFS => {
            "the file system is read-only; mount it for writing or give a `--socket` elsewhere"
        }
        Errno::NOSPC | Errno::DQUOT => {
            "the file system is full; free some of it or give a `--socket` elsewhere"
        }
        Errno::ACCESS | Errno::PERM => "it is not ours to write; check its owner and permissions",
        Errno::NOENT => "its directory is gone; start the broker again",
        Errno::ADDRINUSE => "something else has it; remove it or give another `--socket`",
        _ => "check the path",
    };
    format!("{what}: {todo}")
}

fn errno_of(source: &io::Error) -> Errno {
    Errno::from_io_error(source).unwrap_or(Errno::IO)
}

/// Makes `path` and its parents, and checks that no other user may write to it.
///
/// # Errors
/// As [`Listener::open`].
pub fn make_directory(path: &Path, everybody: bool) -> Result<(), Error> {
    let mode = if everybody { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path);
    made.map_err(|source| {
        Error::path(
            path,
            advice(errno_of(&source), "the directory cannot be made"),
            source,
        )
    })?;
    let status = std::fs::symlink_metadata(path)
        .map_err(|source| Error::path(path, "the directory cannot be looked at", source))?;
    let uid = rustix::process::geteuid().as_raw();
    let problem = match status {
        _ if !status.is_dir() => {
            "is not a directory (a link is not followed); remove it or give a `--socket` elsewhere"
        }
        _ if status.uid() != uid => {
            "belongs to somebody else; give a `--socket` in a directory of your own"
        }
        _ if status.mode() & 0o022 != 0 => {
            "others may write to it; `chmod go-w` it or give a `--socket` in a directory of your own"
        }
        _ => return Ok(()),
    };
    Err(Error::Unsafe {
        path: path.into(),
        what: problem.into(),
    })
}

fn take_lock(directory: &Path, socket: &Path) -> Result<Lock, Error> {
    let path = &directory.join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| Error::path(path, advice(errno, "the lock cannot be opened"), errno))?;
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => {
            let pid = std::fs::read_to_string(path)
                .ok()
                .and_then(|text| text.lines().next()?.parse().ok());
            return Err(Error::Taken {
                path: socket.into(),
                pid,
            });
        }
        Err(errno) => return Err(Error::path(path, "the lock cannot be taken", errno)),
    }
    let status = rustix::fs::fstat(&fd)
        .map_err(|errno| Error::path(path, "the lock cannot be looked at", errno))?;
    let tag = tag_of(directory, status.st_ino);
    let words = format!("{}\n{tag:08x}\n", std::process::id());
    let written =
        rustix::fs::ftruncate(&fd, 0).and_then(|()| rustix::io::pwrite(&fd, words.as_bytes(), 0));
    written
        .map_err(|errno| Error::path(path, advice(errno, "the lock cannot be written"), errno))?;
    Ok(Lock {
        name: ManuallyDrop::new(OwnedPath::new(path)),
        _fd: fd,
        tag,
    })
}

/// Removes a socket on which nobody listens. We hold the lock, so a broker that answers there has
/// another directory. Any other file with that name belongs to somebody else and stays.
fn remove_stale(path: &Path) -> Result<(), Error> {
    if std::fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
        return Err(Error::Unsafe {
            path: path.into(),
            what: "is no socket; give another `--socket`, or another PLIMSOLL_SOCKET".into(),
        });
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(Error::Taken {
            path: path.into(),
            pid: None,
        });
    }
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::path(
            path,
            advice(errno_of(&source), "a stale socket cannot be removed"),
            source,
        )),
        _ => Ok(()),
    }
}

/// The socket that the service manager made (`LISTEN_FDS`).
fn inherited() -> Result<Option<OwnedFd>, Error> {
    let failed = |source| Error::System {
        what: "LISTEN_FDS of the service manager cannot be read",
        source,
    };
    let Some(raw) = sd_notify::listen_fds().map_err(failed)?.next() else {
        return Ok(None);
    };
    // SAFETY: the service manager passed this descriptor to us, it is open, and nobody else in this
    // process takes it: `run` is called once per process.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let what = "the socket of the service manager is no listening stream socket; see ListenStream= in \
                plimsolld.socket";
    let listens = rustix::net::sockopt::socket_acceptconn(&fd).map_err(Error::system(what))?;
    if !listens {
        return Err(Error::System {
            what,
            source: io::Error::from(Errno::INVAL),
        });
    }
    rustix::io::ioctl_fionbio(&fd, true).map_err(Error::system(what))?;
    Ok(Some(fd))
}
