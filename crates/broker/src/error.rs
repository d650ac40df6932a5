//! Errors that keep the broker from starting or continuing. Each message says what to do.

use crate::config::ConfigError;
use std::io;
use std::path::PathBuf;

/// Why [`crate::run`] failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the broker is not as required.
    #[error("{}: {what} ({source})", path.display())]
    Path {
        /// The file or directory.
        path: PathBuf,
        /// The message: the failure and the remedy.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The directory belongs to another user, or others may write to it.
    #[error("{}: {what}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// The message: the fault and the remedy.
        what: String,
    },
    /// Another broker answers on the socket.
    #[error(
        "{}: another broker{} already serves this socket; stop it, or give this one a socket of its own \
         (`--socket`)",
        path.display(), pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Taken {
        /// The socket.
        path: PathBuf,
        /// Process id of the other broker, if known.
        pid: Option<u32>,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A necessary system call failed.
    #[error("{what}: {source}")]
    System {
        /// The message: the failure and the remedy.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The memory of the domain cannot be read.
    #[error(
        "the memory of {domain} cannot be read: {message}; `plimsoll doctor` shows what this kernel allows"
    )]
    Domain {
        /// Name of the domain.
        domain: String,
        /// The reason.
        message: String,
    },
}

impl Error {
    /// Wraps the error of a necessary system call.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |source| Error::System {
            what,
            source: source.into(),
        }
    }

    /// Wraps an error on a path.
    pub(crate) fn path(
        path: impl Into<PathBuf>,
        what: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Error {
        Error::Path {
            path: path.into(),
            what: what.into(),
            source: source.into(),
        }
    }
}
