//! Threads of the collector's own.

use crate::unwind::thread_is_ours;
use libc::c_void;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Bytes of the stack of one of our threads.
const STACK: usize = 256 << 10;

/// The orders for one of our threads.
struct Order {
    /// Its name, of at most 15 bytes.
    name: &'static CStr,
    body: Box<dyn FnOnce() + Send>,
}

/// Starts a thread that receives no signal of the program's. False if the kernel cannot create one.
///
/// The thread is the C library's, not Rust's: that would call `malloc` in it, which then reserves
/// 64 MiB of addresses for the thread.
pub(crate) fn spawn(name: &'static CStr, body: impl FnOnce() + Send + 'static) -> bool {
    let body = Box::new(body);
    let order = Box::into_raw(Box::new(Order { name, body }));
    // SAFETY: sets and attributes are filled in by the calls; only this thread's mask changes, and
    // is set back.
    let failed = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        let (mut attributes, mut id) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let failed = libc::pthread_create(&mut id, &attributes, run, order.cast());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        failed
    };
    if failed != 0 {
        // SAFETY: made above, and there is no thread that has it.
        drop(unsafe { Box::from_raw(order) });
    }
    failed == 0
}

extern "C" fn run(order: *mut c_void) -> *mut c_void {
    thread_is_ours();
    // SAFETY: made by `spawn` for this thread.
    let order = unsafe { Box::from_raw(order.cast::<Order>()) };
    let Order { name, body } = *order;
    // SAFETY: a string that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic, which was reported, ends only this thread. Dropping what it carried may panic, too.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        std::mem::forget(payload);
    }
    null_mut()
}
