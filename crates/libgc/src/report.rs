//! Messages, and the ways to give up.

use crate::settings::{GC_on_abort, Variable};
use crate::thread::cancel::Uncancelled;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::os::fd::IntoRawFd;
use std::ptr::null_mut;

type WarnProc = unsafe extern "C-unwind" fn(*mut c_char, usize);

static WARN: Variable<WarnProc> = Variable::new(warn_default);
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

/// Warns the program. The message must have exactly one conversion, `%ld`, `%lu` or `%p`, for one
/// word.
pub(crate) fn warn(message: &CStr, value: usize) {
    // SAFETY: the program's procedure, or ours, with what libgc gives it.
    unsafe { (WARN.get())(message.as_ptr().cast_mut(), value) };
}

unsafe extern "C-unwind" fn warn_default(message: *mut c_char, value: usize) {
    let mut line = [0u8; 512];
    // SAFETY: a message of ours, or of the program's with the conversion that libgc's interface names.
    let length = unsafe { libc::snprintf(line.as_mut_ptr().cast(), line.len(), message, value) };
    write(ERRORS.get(), b"GC Warning: ");
    write(
        ERRORS.get(),
        &line[..line.len().min(length.max(0) as usize)],
    );
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_ignore_warn_proc(_: *mut c_char, _: usize) {}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_warn_proc(procedure: WarnProc) {
    WARN.set(procedure);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_warn_proc() -> WarnProc {
    WARN.get()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_log_fd(to: c_int) {
    LOG.set(to);
}

/// Prints a last message and aborts the program.
pub(crate) fn abort(message: &CStr) -> ! {
    (GC_on_abort.get())(message.as_ptr());
    std::process::abort()
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

/// The default out-of-memory function: returns null, like libgc's.
pub(crate) extern "C-unwind" fn no_memory(_: usize) -> *mut c_void {
    null_mut()
}

extern "C-unwind" fn abort_without_memory(_: usize) -> *mut c_void {
    complain("Insufficient memory for the allocation\n");
    // As with libgc, a null message means that the program exits with status 1.
    (GC_on_abort.get())(std::ptr::null());
    std::process::exit(1)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_abort_on_oom() {
    crate::settings::GC_oom_fn.set(abort_without_memory);
}
