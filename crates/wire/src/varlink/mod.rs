//! Varlink (<https://varlink.org>): JSON objects, each ended by one NUL byte.
//!
//! - [`Decoder`] cuts a byte stream into messages of bounded length.
//! - [`Call`] and [`Reply`] parse one message without copying it.
//! - [`encode_call`], [`encode_reply`] and [`encode_error`] append a message to a caller's buffer.
//! - [`Method`] and [`ErrorName`] are the names declared in `io.plimsoll.varlink`
//!   ([`DESCRIPTION`]). [`service`] has the interface by which every Varlink service describes
//!   itself.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `decoder` | cuts a byte stream into messages |
//! | `call` | the messages of a client |
//! | `reply` | the messages of the broker |
//! | `error` | the errors that a broker returns |
//! | `parameters` | reads parameters; says which field is wrong |
//! | `service` | the interface by which every Varlink service describes itself |

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

/// Longest message to the broker, without its NUL, bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Longest message from the broker, without its NUL, bytes: a listing of many principals is long.
pub const MAX_REPLY: usize = 16 * 1024 * 1024;
/// The interface's name.
pub const INTERFACE: &str = "io.plimsoll";
/// The interface file.
pub const DESCRIPTION: &str = include_str!("../io.plimsoll.varlink");

/// Why a message could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It would be longer than the receiver accepts.
    #[error("the message would have {length} bytes, the other side takes {max}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest allowed length in bytes.
        max: usize,
    },
    /// Its parameters cannot be expressed in JSON.
    #[error("the parameters cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Appends `message` and its NUL to `out`; leaves `out` unchanged on error.
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
