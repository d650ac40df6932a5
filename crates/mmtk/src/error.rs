//! The errors before a heap starts. Afterwards there are none.

use plimsoll_unit::Bytes;

/// Why a sizer could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Without it, no maximum is known.
    #[error(
        "the memory of this machine cannot be read ({0}), so the heap would have no true maximum: is \
         /proc mounted?"
    )]
    Capacity(#[source] plimsoll_kernel::Error),
    /// MMTk works badly with less.
    #[error("a heap of at most {} bytes is too small for MMTk: give at least 8 MiB", .bytes.0)]
    TooSmall {
        /// The maximum.
        bytes: Bytes,
    },
}

/// With [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
