//! The end of a registered thread, in whatever way it comes.

use super::current;
use crate::{diagnostics, state};
use libc::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A key whose destructor runs however a thread ends.
fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: makes a key.
        if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } != 0 {
            diagnostics::abort(c"No key for threads: the program has taken all");
        }
        key
    })
}

/// Rounds of destructors when a thread ends (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;

/// Has this thread unregistered when it ends, in whatever way.
pub(crate) fn watch() {
    watch_end_from(1);
}

/// Sets the key for destructor round `round`, so that the destructor runs in it.
fn watch_end_from(round: usize) {
    // SAFETY: any value that is not null has the destructor run; it is a number, and nothing is
    // read through it.
    unsafe { libc::pthread_setspecific(key(), std::ptr::without_provenance(round)) };
}

extern "C" fn ended(round: *mut c_void) {
    // The program's own destructors may still allocate, or unregister the thread.
    if round.addr() < ROUNDS && !current::get().is_null() {
        return watch_end_from(round.addr() + 1);
    }
    let mut gc = state::lock();
    // SAFETY: this thread's own.
    let result =
        unsafe { current::get().as_ref() }.map_or(null_mut(), |this| this.joining.result());
    let heap = gc.heap;
    gc.program.leave(heap, result);
}
