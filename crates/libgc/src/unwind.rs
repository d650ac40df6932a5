//! Exceptions of the program: its callbacks may throw, and then frames of the collector are
//! unwound. Exported functions and callbacks are `C-unwind` for that. A panic of the collector's
//! own must not escape that way.

use crate::output::complain;
use std::cell::Cell;

thread_local! {
    /// Whether this thread belongs to the collector: the program has no frames on its stack.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the collector's: a panic on it ends only the thread.
pub(crate) fn thread_is_ours() {
    OURS.set(true);
}

/// Whether this thread is one of ours.
pub(crate) fn is_ours() -> bool {
    OURS.get()
}

/// From now on, a panic on a thread of the program prints its message and ends the program.
pub(crate) fn end_where_we_panic() {
    if cfg!(test) {
        // In tests, a panic must be reported as a failed test.
        return;
    }
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        if !OURS.get() {
            std::process::abort();
        }
    }));
}

/// Guards a section that must not be left half done: a callback that throws in it ends the program.
pub(crate) struct Whole(());

impl Whole {
    pub(crate) fn begin() -> Whole {
        Whole(())
    }

    pub(crate) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        complain("A callback of a collection was left by an exception\n");
        std::process::abort();
    }
}
