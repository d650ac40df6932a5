//! Messages, and the ways to give up.

use crate::abi::variables::GC_on_abort;
use crate::output::{complain, warn_default};
use crate::racy_cell::Variable;
use libc::{c_char, c_void};
use std::ffi::CStr;

pub(crate) type WarnProc = unsafe extern "C-unwind" fn(*mut c_char, usize);

/// The program's procedure for warnings.
pub(crate) static WARN: Variable<WarnProc> = Variable::new(warn_default);

/// Warns the program. The message must have exactly one conversion, `%ld`, `%lu` or `%p`, for one
/// word.
pub(crate) fn warn(message: &CStr, value: usize) {
    // SAFETY: the program's procedure, or ours, with what libgc gives it.
    unsafe { (WARN.get())(message.as_ptr().cast_mut(), value) };
}

/// Prints a last message and aborts the program.
pub(crate) fn abort(message: &CStr) -> ! {
    (GC_on_abort.get())(message.as_ptr());
    std::process::abort()
}

/// Called for a feature of libgc that is not supported here: says so and ends the program before it
/// relies on the feature.
pub(crate) fn unsupported(name: &str, what: &str) -> ! {
    let text = format!(
        "plimsoll libgc: {name}: {what} are not supported; use the system's libgc for this program\0"
    );
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => abort(text),
        Err(_) => abort(c"unsupported"),
    }
}

/// Ends the program.
pub(crate) extern "C-unwind" fn abort_without_memory(_: usize) -> *mut c_void {
    complain("Insufficient memory for the allocation\n");
    // As with libgc, a null message means that the program exits with status 1.
    (GC_on_abort.get())(std::ptr::null());
    std::process::exit(1)
}
