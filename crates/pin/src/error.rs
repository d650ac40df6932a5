//! Why pages are not watched or not held.

use plimsoll_kernel::Error as KernelError;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_kernel::timeout::Missed;
use std::io;

/// Why a file, a process or the whole is passed over.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PinError {
    /// A file of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The file system is of a kind whose pages are not locked.
    #[error("{path}: on {kind}, {why}")]
    FileSystem {
        path: String,
        kind: String,
        why: &'static str,
    },
    /// The overlay was mounted with relative paths.
    #[error(
        "{path}: on an overlay of which it is not known what it lies on, so it may be behind a server; that \
         is known where all layers are mounted by absolute paths"
    )]
    UnknownLayers { path: String },
    /// The device is not in the process's list of mounts.
    #[error(
        "{path}: on device {major}:{minor}, which process {pid} has not mounted; it may be of a \
         network file system"
    )]
    UnknownDevice {
        path: String,
        major: u32,
        minor: u32,
        pid: i32,
    },
    /// Not a regular file.
    #[error("{path}: not a regular file")]
    NotAFile { path: String },
    /// Another file is at this path now.
    #[error(
        "{path}: another file is there now (inode {} is mapped); root can open the mapped one", key.inode
    )]
    Replaced { path: String, key: FileKey },
    /// Pages of as many files as may be are held already.
    #[error("pages of {most} files are held, which is the most: those of others are not")]
    TooManyFiles { most: usize },
    /// Opening failed.
    #[error("{path}: cannot be opened for reading: {source}")]
    Open { path: String, source: io::Error },
    /// Opening was not begun, for a reason that is not the file's.
    #[error("{path}: not opened: {why}")]
    Unasked { path: String, why: Missed },
    /// Mapping or locking failed.
    #[error("{path}: {doing} {bytes} bytes failed: {source}{hint}")]
    Lock {
        path: String,
        doing: &'static str,
        bytes: u64,
        source: io::Error,
        hint: &'static str,
    },
}

impl PinError {
    /// Whether it says nothing of the file, because nothing was asked.
    pub fn is_unasked(&self) -> bool {
        matches!(self, PinError::Unasked { .. })
    }

    /// Whether it took too long.
    pub fn is_late(&self) -> bool {
        matches!(self, PinError::Open { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}
