//! A thread for collectors that work beside the program: their stalls are not within pauses, so the
//! process is read periodically.

use crate::panic_guard::{is_over, unharmed};
use crate::pauses::reading;
use crate::stall_signal::Reader;
use crate::time_budget::TimeBudget;
use plimsoll_kernel::clock;
use plimsoll_wire::collections::ProcessWriter;
use std::time::Duration;

/// The pause between two readings, where they are not dear.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes of its stack; it calls nothing deep.
const STACK: usize = 128 << 10;

/// Starts the thread. It is none of Java's, takes no signal, and ends with the agent. Where no thread can
/// be had, the process is just not read.
pub fn start(mut process: ProcessWriter<'static>) {
    let mut reader = Reader::open();
    let mut ration = TimeBudget::default();
    let work = move || {
        while !is_over() {
            unharmed((), || {
                let at = clock::now();
                let now = reader.read(at);
                reader.tell_fall(&mut process);
                process.read(&reading(now, at));
                let end = clock::now();
                ration.spent(end - at, end);
            });
            std::thread::sleep(PERIOD.max(ration.rest().duration()));
        }
    };
    let builder = std::thread::Builder::new()
        .name("plimsoll".into())
        .stack_size(STACK);
    without_signals(|| drop(builder.spawn(work)));
}

/// Runs `work` with all signals blocked, so that a thread that it makes takes none: the machine decides
/// which of its threads get which.
fn without_signals(work: impl FnOnce()) {
    // SAFETY: a signal set is plain old data, and both are valid for the calls. The mask of this thread
    // is restored right after.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        work();
        if blocked == 0 {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
}
