//! Blocking regions, in which a thread does not touch objects, so that nobody waits for it to stop.
//! The part of its stack that was in use at the beginning does not change until the end.

use super::current;
use super::stack_use::Section;
use crate::state;
use libc::c_void;

pub(crate) type Function = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Marks this thread as blocked at the address `here`. With 0, marks it as active, and waits while
/// the world is stopped.
pub(crate) fn block_at(here: usize) {
    let _gc = state::lock();
    // Looked up again each time: the thread may have been unregistered meanwhile.
    // SAFETY: this thread's own; under the lock.
    if let Some(this) = unsafe { current::get().as_ref() } {
        this.stack.block_at(here);
    }
}

/// Ends a blocking region when it is dropped, by whatever path.
pub(crate) struct ActiveAgain;

impl Drop for ActiveAgain {
    fn drop(&mut self) {
        // Until this thread has the lock, it stays blocked, and so does a signal handler that
        // interrupts this.
        block_at(0);
    }
}

/// Continues the blocking region around a section when it is dropped, by whatever path.
pub(crate) struct BlockedAgain<'a>(pub(crate) &'a Section);

impl Drop for BlockedAgain<'_> {
    fn drop(&mut self) {
        let _gc = state::lock();
        // SAFETY: this thread's own, if it has not left; under the lock. The section is its innermost.
        if let Some(this) = unsafe { current::get().as_mut() } {
            this.stack.close(self.0);
        }
    }
}
