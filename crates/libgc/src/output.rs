//! Where messages go, and what the program's functions for messages do unless it sets others.

use crate::racy_cell::Variable;
use crate::thread::cancel::Uncancelled;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::os::fd::IntoRawFd;
use std::ptr::null_mut;

static LOG: Variable<c_int> = Variable::new(libc::STDERR_FILENO);
static ERRORS: Variable<c_int> = Variable::new(libc::STDERR_FILENO);
static OUTPUT: Variable<c_int> = Variable::new(libc::STDOUT_FILENO);

fn write(to: c_int, text: &[u8]) {
    // Needed even without the lock: allocation is not a cancellation point, but it may print a
    // warning.
    let _uncancelled = Uncancelled::begin();
    // SAFETY: writes these bytes; nothing can be done if it cannot.
    unsafe { libc::write(to, text.as_ptr().cast(), text.len()) };
}

/// Prints a message about collections: to standard error, or to the log that `GC_LOG_FILE` names.
pub(crate) fn say(text: &str) {
    write(LOG.get(), text.as_bytes());
}

/// Prints a message about a mistake of the program, wherever the log goes.
pub(crate) fn complain(text: &str) {
    write(ERRORS.get(), text.as_bytes());
}

/// Prints what the program asked for.
pub(crate) fn print(text: &str) {
    write(OUTPUT.get(), text.as_bytes());
}

/// Sends messages to the file that `GC_LOG_FILE` names: all of them, or only the log if `only_log`.
pub(crate) fn log_to(path: &std::ffi::OsStr, only_log: bool) {
    let Ok(file) = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
    else {
        complain(&format!(
            "Failed to open {} as log file\n",
            path.to_string_lossy()
        ));
        return;
    };
    let to = file.into_raw_fd();
    LOG.set(to);
    if !only_log {
        ERRORS.set(to);
        OUTPUT.set(to);
    }
}

pub(crate) unsafe extern "C-unwind" fn warn_default(message: *mut c_char, value: usize) {
    let mut line = [0u8; 512];
    // SAFETY: a message of ours, or of the program's with the conversion that libgc's interface names.
    let length = unsafe { libc::snprintf(line.as_mut_ptr().cast(), line.len(), message, value) };
    write(ERRORS.get(), b"GC Warning: ");
    write(
        ERRORS.get(),
        &line[..line.len().min(length.max(0) as usize)],
    );
}

pub(crate) extern "C-unwind" fn abort_default(message: *const c_char) {
    // SAFETY: a string of ours.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return;
    };
    // SAFETY: as above.
    let message = unsafe { CStr::from_ptr(message) };
    write(ERRORS.get(), message.to_bytes());
    write(ERRORS.get(), b"\n");
}

/// The default out-of-memory function: returns null, like libgc's.
pub(crate) extern "C-unwind" fn no_memory(_: usize) -> *mut c_void {
    null_mut()
}

/// Sends the log to an open file.
pub(crate) fn log_to_open(file: c_int) {
    LOG.set(file);
}
