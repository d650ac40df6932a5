//! gc.h: warnings, the log, and the end of a program without memory.

use crate::abi::variables::GC_oom_fn;
use crate::diagnostics::{WARN, WarnProc, abort_without_memory};
use crate::output;
use libc::{c_char, c_int};

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
    output::log_to_open(to);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_abort_on_oom() {
    GC_oom_fn.set(abort_without_memory);
}
