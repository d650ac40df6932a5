//! Exceptions of the program's: its callbacks may throw, and what is ours on the stack is put in
//! order then. Exported functions and callbacks are `C-unwind` for that; a panic of our own is not
//! to get out by that way.

use crate::report;
use std::cell::Cell;

thread_local! {
    /// The program has nothing on this thread's stack.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// This thread is one of ours: who panics here ends it, and nothing else.
pub(crate) fn thread_is_ours() {
    OURS.set(true);
}

/// Whether this thread is one of ours.
pub(crate) fn is_ours() -> bool {
    OURS.get()
}

/// From now on a panic on a thread of the program's says what it says, and ends the program.
pub(crate) fn end_where_we_panic() {
    if cfg!(test) {
        // A test that fails is to be reported.
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

/// Something that cannot be left half done: a callback that throws in it ends the program.
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
        report::complain("A callback of a collection was left by an exception\n");
        std::process::abort();
    }
}
