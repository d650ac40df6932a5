//! Errors. Each message names what it happened to and what to do.

use plimsoll_wire::page::PageError;
use plimsoll_wire::varlink::WireError;
use std::path::PathBuf;
use std::time::Duration;

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. None of these ever comes from reading the numbers: reading cannot fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No broker answers at any of the usual places.
    #[error("no broker runs (looked at {tried}); start one with `plimsolld` or use `plimsoll run`")]
    NoBroker {
        /// The places, separated by commas.
        tried: String,
    },
    /// The broker's socket could not be used.
    #[error("cannot {doing} {path}: {source}")]
    Socket {
        /// connect to, send to, ...
        doing: &'static str,
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// Another user could have put this socket there.
    #[error("{path} is not to be trusted: {why}; remove it or set PLIMSOLL_SOCKET")]
    Untrusted {
        /// The directory or socket.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The broker closed the connection (it ended, was restarted, or cut us off).
    #[error("the broker at {path} closed the connection; open another")]
    Closed {
        /// The socket.
        path: PathBuf,
    },
    /// The broker did not answer in time. The connection is closed for good.
    #[error("the broker at {path} did not answer within {} ms; look with `plimsoll \
             doctor`", .after.as_millis())]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// How long we waited.
        after: Duration,
    },
    /// The answer does not follow the interface.
    #[error(
        "the broker at {path} answered against the protocol: {why}; update the older of the two"
    )]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// The fault of the answer.
        why: String,
    },
    /// The broker, or already a check on our side, refused the call.
    #[error("{0}")]
    Refused(#[from] WireError),
    /// The call is longer than the broker accepts.
    #[error("{0}")]
    TooLong(#[from] plimsoll_wire::varlink::EncodeError),
    /// The availability page cannot be opened or mapped.
    #[error("cannot {doing} the availability page {path}: {source}")]
    Page {
        /// open, map, ...
        doing: &'static str,
        /// The page.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The file exists but is not a page that we can read.
    #[error("{path} is not usable as an availability page: {source}")]
    NotAPage {
        /// The page.
        path: PathBuf,
        /// The fault of the page.
        source: PageError,
    },
    /// There is no broker at present. Settings are sent when it is back, but this question cannot
    /// be asked.
    #[error(
        "{what} needs a broker and none is there just now; the numbers come from local sensing"
    )]
    Alone {
        /// Which call.
        what: &'static str,
    },
    /// The kernel gave us no thread, descriptor or memory.
    #[error("cannot {doing}: {source}")]
    Resource {
        /// The action that failed.
        doing: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether there is no broker to talk to, as opposed to one that refuses.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            Error::NoBroker { .. }
                | Error::Socket { .. }
                | Error::Closed { .. }
                | Error::Timeout { .. }
                | Error::Alone { .. }
        )
    }
}
