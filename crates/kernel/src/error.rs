//! Errors of the kernel's interfaces.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. Each names the file or the process, what happened, and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// Not offered by this kernel, this mount or this group. The caller should take the next tier.
    #[error("{} does not exist here: this kernel or this mount does not offer it", path.display())]
    Absent { path: PathBuf },
    /// Offered, but not to us.
    #[error("{} is not ours to use: it needs {needs}", path.display())]
    Denied { path: PathBuf, needs: &'static str },
    /// The process has exited, or its number belongs to another process now.
    #[error("process {pid} has exited (its number may belong to another process by now)")]
    Gone { pid: i32 },
    /// Readable, but not in the documented format.
    #[error("{} holds something unexpected: {why}; please report it with the file's text", path.display())]
    Broken { path: PathBuf, why: &'static str },
    /// The kernel refuses for now: memory is locked, or a group still has processes.
    #[error("{} is busy: {why}", path.display())]
    Busy { path: PathBuf, why: &'static str },
    /// It was not read, for a reason that is not its own.
    #[error("{} was not read: {why}", path.display())]
    Missed {
        path: PathBuf,
        why: crate::timeout::Missed,
    },
    /// A system call that this kernel does not know.
    #[error("this kernel does not offer {what} (it came with Linux {since})")]
    Unsupported {
        what: &'static str,
        since: &'static str,
    },
    /// A system call on a process was refused.
    #[error("{call} on process {pid} is not ours to do: it needs {needs}")]
    NotPermitted {
        call: &'static str,
        pid: i32,
        needs: &'static str,
    },
    /// The caller asked for something out of range.
    #[error("{what}: {why}")]
    Argument {
        what: &'static str,
        why: &'static str,
    },
    /// Any other failure of a file.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Any other failure of a system call.
    #[error("{call} (process {pid}): {source}")]
    Call {
        call: &'static str,
        pid: i32,
        source: io::Error,
    },
}

impl Error {
    /// Sorts the errno of an operation on a file into the variants above.
    pub fn of_file(doing: &'static str, path: &Path, errno: rustix::io::Errno) -> Error {
        use rustix::io::Errno;
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT | Errno::NODEV | Errno::NOTDIR => match pid_in(&path) {
                Some(pid) if !crate::process::exists(pid) => Error::Gone { pid },
                _ => Error::Absent { path },
            },
            Errno::SRCH => match pid_in(&path) {
                Some(pid) => Error::Gone { pid },
                None => Error::Absent { path },
            },
            Errno::ROFS => Error::Denied {
                path,
                needs: "a mount that can be written (here it is read-only)",
            },
            Errno::ACCESS | Errno::PERM => Error::Denied {
                path,
                needs: needs_of(doing),
            },
            Errno::BUSY => Error::Busy {
                path,
                why: "the kernel cannot do it now; try again later",
            },
            other => Error::Io {
                doing,
                path,
                source: other.into(),
            },
        }
    }

    /// As [`Error::of_file`], for an error of the standard library.
    pub(crate) fn of_io(doing: &'static str, path: &Path, error: &io::Error) -> Error {
        let errno = rustix::io::Errno::from_io_error(error);
        Error::of_file(doing, path, errno.unwrap_or(rustix::io::Errno::IO))
    }

    /// Whether this is only not offered here, so that the next tier should be tried.
    pub fn is_absent(&self) -> bool {
        matches!(self, Error::Absent { .. } | Error::Unsupported { .. })
    }

    /// Whether more rights would help.
    pub fn is_denied(&self) -> bool {
        matches!(self, Error::Denied { .. } | Error::NotPermitted { .. })
    }

    /// Whether the kernel refuses for now.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Busy { .. })
    }

    /// Whether it was not read, for a reason that is not its own.
    pub fn is_missed(&self) -> bool {
        matches!(self, Error::Missed { .. })
    }

    /// Whether the process has exited.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }
}

impl From<Error> for io::Error {
    /// The same text as an error of the system, of the kind that callers tell apart.
    fn from(error: Error) -> io::Error {
        use io::ErrorKind;
        let kind = match &error {
            Error::Absent { .. } | Error::Gone { .. } => ErrorKind::NotFound,
            Error::Denied { .. } | Error::NotPermitted { .. } => ErrorKind::PermissionDenied,
            Error::Broken { .. } => ErrorKind::InvalidData,
            Error::Busy { .. } | Error::Missed { .. } => ErrorKind::ResourceBusy,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::Argument { .. } => ErrorKind::InvalidInput,
            Error::Io { source, .. } | Error::Call { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

fn needs_of(doing: &str) -> &'static str {
    match doing {
        "read" | "open" => "the same user or root",
        _ => "root, or a group that was delegated to this user",
    }
}

/// The process number in a path under `/proc`.
fn pid_in(path: &Path) -> Option<i32> {
    let rest = path.strip_prefix("/proc").ok()?;
    rest.components().next()?.as_os_str().to_str()?.parse().ok()
}
