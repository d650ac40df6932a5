//! Varlink (<https://varlink.org>): JSON objects, each ended by one NUL byte.
//!
//! - [`Decoder`] cuts a byte stream into messages, within a bound.
//! - [`Call`] and [`Reply`] look into one message without copying it.
//! - [`encode_call`], [`encode_reply`] and [`encode_error`] append a message to a caller's buffer.
//! - [`Method`] and [`ErrorName`] are the names that `io.plimsoll.varlink` ([`DESCRIPTION`])
//!   declares; [`service`] is what every Varlink service answers about itself.

mod call;
mod decoder;
mod error;
mod parameters;
mod reply;
pub mod service;

pub use call::{Call, Method, Mode, encode_call};
pub use decoder::{Decoder, FramingError};
pub use error::{ErrorName, WireError};
pub(crate) use parameters::marked;
pub use parameters::plain;
pub use reply::{Reply, encode_error, encode_reply};

/// Longest message to the broker, bytes, without its NUL.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Longest message from the broker, bytes, without its NUL: a listing of many principals is long.
pub const MAX_REPLY: usize = 16 * 1024 * 1024;
/// The interface's name.
pub const INTERFACE: &str = "io.plimsoll";
/// The interface file.
pub const DESCRIPTION: &str = include_str!("../io.plimsoll.varlink");

/// Why a message could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It would be longer than the other side takes.
    #[error("the message would have {length} bytes, the other side takes {max}")]
    TooLong {
        /// Bytes that it would have.
        length: usize,
        /// Bytes that it may have.
        max: usize,
    },
    /// Its parameters are nothing that JSON can express.
    #[error("the parameters cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Appends `message` and its NUL to `out`, or leaves `out` as it was.
fn append<T: serde::Serialize>(
    out: &mut Vec<u8>,
    message: &T,
    max: usize,
) -> Result<(), EncodeError> {
    let start = out.len();
    let result = serde_json::to_writer(&mut *out, message);
    let length = out.len() - start;
    let error = match result {
        Ok(()) if length <= max => {
            out.push(0);
            return Ok(());
        }
        Ok(()) => EncodeError::TooLong { length, max },
        Err(error) => EncodeError::Json(error),
    };
    out.truncate(start);
    Err(error)
}
