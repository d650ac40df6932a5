//! Deferred cancellation (`pthread_cancel`). Files are closed and messages written while the lock
//! is held, and those calls are cancellation points: a thread that ended in one would leave the
//! lock held, and the world stopped, for ever.

use libc::c_int;
use std::ptr::null_mut;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const DISABLED: c_int = 1;

/// This thread is not cancelled as long as this lives. Whoever cancels it waits for its next
/// cancellation point after that.
pub(crate) struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub(crate) fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: changes this thread's state only.
        unsafe { pthread_setcancelstate(DISABLED, &mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above; the state is one that the thread had.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}
