//! Deferred cancellation (`pthread_cancel`). Code that holds the lock closes files and writes
//! messages, and those calls are cancellation points. A thread that was cancelled there would leave
//! the lock held, and the world stopped, for ever.

use libc::c_int;
use std::ptr::null_mut;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const DISABLED: c_int = 1;

/// While this value lives, the thread is not cancelled. A pending cancellation takes effect at the
/// first cancellation point after that.
pub(crate) struct Uncancelled {
    /// The state of cancellation before, which comes back when this is dropped.
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
