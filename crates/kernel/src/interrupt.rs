//! An end to a call that blocks in the kernel: after some time a signal comes to the thread again and again,
//! until the call has returned. Calls that take memory from a cgroup look for signals between two pieces of
//! their work, and have no other bound. Source: timer_create(2), mm/memcontrol.c.

use rustix::thread::gettid;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::time::Duration;

/// The pause until the signal comes once more: it may have come just before the call.
const AGAIN: Duration = Duration::from_millis(10);

/// Interrupts this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Interrupt(libc::timer_t);

impl Interrupt {
    /// Begins after `time`. `None` where the system gives no timer; then calls end by themselves alone.
    pub(crate) fn after(time: Duration) -> Option<Interrupt> {
        let signal = signal()?;
        // SAFETY: all zero is a valid `sigevent`, and the calls only read and write variables of ours. The
        // thread that is named is this one, and the timer ends with the value, which does not leave it.
        unsafe {
            let mut event = zeroed::<libc::sigevent>();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
            let mut timer = null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return None;
            }
            let interrupt = Interrupt(timer);
            let times = libc::itimerspec {
                it_interval: timespec(AGAIN),
                // Zero would switch it off.
                it_value: timespec(time.max(Duration::from_nanos(1))),
            };
            let set = libc::timer_settime(timer, 0, &raw const times, null_mut());
            (set == 0).then_some(interrupt)
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and nobody has its number any more.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// The signal, which nothing else uses here and for which a handler is set; let through in this thread.
fn signal() -> Option<i32> {
    static SIGNAL: OnceLock<Option<i32>> = OnceLock::new();
    let signal = (*SIGNAL.get_or_init(prepared))?;
    // SAFETY: reads and writes a variable of ours; a signal that is let through runs `nothing`.
    unsafe {
        let mut set = zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
    }
    Some(signal)
}

/// Sets the handler, if nobody has set one. It has no `SA_RESTART`: the call is to end.
fn prepared() -> Option<i32> {
    let signal = libc::SIGRTMAX() - 2;
    // SAFETY: the handler does nothing, so it may run anywhere; the variables are ours.
    unsafe {
        let mut found = zeroed::<libc::sigaction>();
        let asked = libc::sigaction(signal, null(), &raw mut found);
        if asked != 0 || found.sa_sigaction != libc::SIG_DFL {
            return None;
        }
        let mut ours = zeroed::<libc::sigaction>();
        ours.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        (libc::sigaction(signal, &raw const ours, null_mut()) == 0).then_some(signal)
    }
}

/// Does nothing: the kernel ends the call to run it.
extern "C" fn nothing(_signal: libc::c_int) {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_call_that_would_wait_for_ever_ends_also_if_it_begins_late() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let interrupt = Interrupt::after(Duration::from_millis(1)).unwrap();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(rustix::io::read(&pipe, &mut [0; 1]), Err(Errno::INTR));
        }
        drop(interrupt);
        let timers = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
        assert!(!timers.contains("ID:"), "{timers}");
    }
}
