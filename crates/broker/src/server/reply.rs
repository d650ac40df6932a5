//! The result of a method, and the errors of other modules as Varlink errors.

use crate::decide::Refusal;
use crate::error::Error;
use plimsoll_kernel as kernel;
use plimsoll_wire::varlink::{EncodeError, ErrorName, WireError, encode_reply};
use serde::Serialize;

/// Encoded replies, ready to be sent.
pub type Answer = Result<Vec<u8>, WireError>;

/// Encodes the only reply of a method.
///
/// # Errors
/// `Failed` when the reply is longer than a client accepts.
pub fn once<P: Serialize>(parameters: &P) -> Answer {
    encode(parameters, false)
}

/// Encodes one of several replies of a method.
///
/// # Errors
/// As [`once`].
pub fn again<P: Serialize>(parameters: &P) -> Answer {
    encode(parameters, true)
}

fn encode<P: Serialize>(parameters: &P, continues: bool) -> Answer {
    let mut out = Vec::new();
    let result: Result<(), EncodeError> = encode_reply(&mut out, parameters, continues);
    result.map_err(|error| WireError::new(ErrorName::Failed, error.to_string()))?;
    Ok(out)
}

/// The error for a refusal of the core.
#[must_use]
pub fn refused(refusal: Refusal) -> WireError {
    let name = match refusal {
        Refusal::NoSuchPrincipal(_) => ErrorName::NoSuchPrincipal,
        Refusal::Cycle { .. } => ErrorName::Cycle,
        Refusal::TooMany(_) => ErrorName::TooMany,
        Refusal::TooDeep(_) => ErrorName::TooDeep,
    };
    WireError::new(name, refusal.to_string())
}

/// The error for a process operation that the kernel refused.
#[must_use]
pub fn process_refused(pid: u32, error: &kernel::Error) -> WireError {
    if error.is_gone() {
        return WireError::new(
            ErrorName::NoSuchProcess,
            format!("no process has the number {pid}; it may have exited"),
        );
    }
    WireError::new(
        ErrorName::Failed,
        format!("process {pid} cannot be looked at: {error}"),
    )
}

/// The error for a failure of the broker itself.
#[must_use]
pub fn failed(error: &Error) -> WireError {
    WireError::new(ErrorName::Failed, error.to_string())
}
