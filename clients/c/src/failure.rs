//! Negative results and their messages.

use plimsoll_client::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const EINVAL: c_int = -1;
const EREFUSED: c_int = -2;
const ESYSTEM: c_int = -3;
const EINTERNAL: c_int = -4;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A number for the program, and a message for people.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    message: String,
}

impl Failure {
    pub(crate) fn invalid(message: &str) -> Failure {
        Failure {
            code: EINVAL,
            message: message.to_owned(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Refused(_) | Error::Untrusted { .. } => EREFUSED,
            _ => ESYSTEM,
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

/// Runs the body of a function of the header: a failure becomes its number and is kept for
/// `plimsoll_error`, a panic becomes `PLIMSOLL_EINTERNAL`.
pub(crate) fn guarded(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // Dropping what a panic carried may panic, too.
        std::mem::forget(payload);
        Err(Failure {
            code: EINTERNAL,
            message: "libplimsoll: an internal fault; please report it".to_owned(),
        })
    });
    outcome.unwrap_or_else(|failure| {
        keep(&failure.message);
        failure.code
    })
}

fn keep(message: &str) {
    let message = message.replace('\0', " ");
    let message = CString::new(message).unwrap_or_default();
    // While the thread is ending the message cannot be kept, and nobody will ask for it.
    let _ = LAST.try_with(|last| last.replace(message));
}

/// The message of this thread's last failure.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// The general message of a number.
pub(crate) fn in_general(code: c_int) -> &'static CStr {
    match code {
        0.. => c"no failure",
        EINVAL => c"a null pointer, or a value that cannot be",
        EREFUSED => c"the broker refused",
        ESYSTEM => c"the system or the other end of a socket failed",
        EINTERNAL => c"a fault of libplimsoll",
        _ => c"no failure of libplimsoll",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics when it is dropped.
    struct Spiteful;

    impl Drop for Spiteful {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_whose_payload_panics_does_not_leave_the_library() {
        let code = guarded(|| std::panic::panic_any(Spiteful));
        assert_eq!(code, EINTERNAL);
    }
}
