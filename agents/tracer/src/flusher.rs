//! A thread that writes what was collected once a second, so that little is lost when the machine is killed.

use crate::panic_guard::unharmed;
use crate::session::recording;
use std::time::Duration;

/// The time between two writes: older events are on their way to the disk.
const EACH: Duration = Duration::from_secs(1);

/// Starts it. Signals of the process are for other threads.
pub fn start() {
    // SAFETY: both sets are valid for the calls; the mask of this thread is put back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let named = std::thread::Builder::new().name("plimsoll-trace".into());
        // Without it only more is lost when the machine is killed.
        let _ = named.spawn(keep);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

fn keep() {
    loop {
        std::thread::sleep(EACH);
        let goes_on = unharmed(false, || match recording() {
            Some(session) => {
                session.sync();
                true
            }
            None => false,
        });
        if !goes_on {
            return;
        }
    }
}
