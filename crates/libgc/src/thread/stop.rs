//! Stopping the world: each thread is sent a signal, and waits in its handler until the world
//! starts again.
//!
//! A thread answers a stop by storing where the kernel put its registers, and by a
//! [handshake](Handshake). A thread that is using its bins returns from the handler, finishes, and enters
//! the handler again ([`Thread::leave_bins`]).

use super::current;
use super::handshake::Handshake;
use super::record::Thread;
use super::registered::Threads;
use crate::abi::variables::on_thread_event;
use crate::diagnostics;
use crate::roots::loader;
use libc::{c_int, c_ulong, siginfo_t};
use rustix::time::Timespec;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, fence};
use std::time::{Duration, Instant};

/// The handshake of this process.
static HANDSHAKE: Handshake = Handshake::new();

/// The thread that stops the world: it ignores a suspend signal that the program sends it.
static STOPPER: AtomicPtr<Thread> = AtomicPtr::new(null_mut());

/// `GC_EVENT_THREAD_SUSPENDED` and `_UNSUSPENDED`.
const SUSPENDED: u32 = 10;
const UNSUSPENDED: u32 = 11;

/// The signals in use. A program may set them before the collector is ready, and ask for them.
pub(crate) mod signals {
    use super::*;

    static SUSPEND: AtomicU32 = AtomicU32::new(libc::SIGPWR as u32);
    static RESTART: AtomicU32 = AtomicU32::new(libc::SIGXCPU as u32);

    /// The signal that stops a thread.
    pub(crate) fn suspend() -> c_int {
        SUSPEND.load(Relaxed) as c_int
    }

    /// The signal of libgc that restarts one. It is never sent: stopped threads wait for the stop to
    /// end.
    pub(crate) fn restart() -> c_int {
        RESTART.load(Relaxed) as c_int
    }

    /// Sets the signal that stops a thread, before the handler is installed.
    pub(crate) fn set_suspend(signal: c_int) {
        SUSPEND.store(signal as u32, Relaxed);
    }

    /// Sets the other one.
    pub(crate) fn set_restart(signal: c_int) {
        RESTART.store(signal as u32, Relaxed);
    }

    /// The signal by which the C library cancels a thread; the first of the library's own signals.
    const CANCEL: c_int = 32;

    extern "C" fn on_restart(_: c_int) {}

    /// Installs the signal handlers.
    pub(crate) fn install() {
        if suspend() as u32 == RESTART.load(Relaxed) {
            diagnostics::abort(
                c"The same signal is to stop threads and to restart them: set another one",
            );
        }
        // SAFETY: a handler that only does what may be done in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_stop as *const () as usize;
            // A stack that the program switched to may have no room for handlers (Go's). So they
            // run on the thread's alternate signal stack, if it has one.
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&mut action.sa_mask);
            for kept in [
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGABRT,
                libc::SIGTERM,
                libc::SIGSEGV,
                libc::SIGBUS,
            ] {
                libc::sigdelset(&mut action.sa_mask, kept);
            }
            // A thread that is cancelled while it waits here must handle that only when it goes on:
            // the C library unwinds from its own handler, which must not unwind ours. `sigaddset`
            // refuses that signal, but `sigaction` accepts a set with it.
            let mask = (&raw mut action.sa_mask).cast::<c_ulong>();
            *mask |= 1 << (CANCEL - 1);
            libc::sigaction(suspend(), &action, std::ptr::null_mut());
            // As with libgc, the other signal does not kill a program that receives it.
            action.sa_sigaction = on_restart as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(
                RESTART.load(Relaxed) as c_int,
                &action,
                std::ptr::null_mut(),
            );
        }
    }

    /// Unblocks the suspend signal for this thread.
    pub(crate) fn unblock() {
        // SAFETY: changes this thread's mask only.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, suspend());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_stop(_: c_int, _: *mut siginfo_t, context: *mut libc::c_void) {
    // SAFETY: this thread's own error number.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: this thread's own; null if it is not registered.
    if let Some(this) = unsafe { current::get().as_ref() }
        && !this.deferral.puts_off()
    {
        wait(this, context as usize);
        if this.suspension.is_wanted() {
            this.stack.stop_at(context as usize);
            this.suspension.park();
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Answers the current stop, if this thread has not done so, and waits until it ends. The thread's
/// registers are at `context`: on its own stack, or on the stack of its handlers.
fn wait(this: &Thread, context: usize) {
    let Some(stop) = HANDSHAKE.current() else {
        return;
    };
    // Nobody waits for a blocked thread; and it may hold a lock that the collector will want, such
    // as the loader's.
    if this.answered.load(Relaxed) == stop
        || this.stack.blocked_at().is_some()
        || std::ptr::eq(this, STOPPER.load(Relaxed))
    {
        return;
    }
    this.stack.stop_at(context);
    HANDSHAKE.answer(stop, &this.answered);
    HANDSHAKE.stand(stop, Timespec::try_from(LATE).ok().as_ref());
}

impl Thread {
    /// Sends this thread a signal. False if the thread is gone. Signal 0 only checks that.
    pub(crate) fn signal(&self, signal: c_int) -> bool {
        // SAFETY: only a signal; a thread that is gone gets none.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.id, signal) == 0 }
    }

    /// From here to [`leave_bins`](Thread::leave_bins), this thread is not stopped.
    #[inline(always)]
    pub(crate) fn enter_bins(&self) {
        self.deferral.enter();
    }

    /// From here on, this thread may be stopped again. If a stop was requested meanwhile, it stops
    /// now.
    #[inline(always)]
    pub(crate) fn leave_bins(&self) {
        if self.deferral.leave() {
            self.stop_late();
        }
    }

    #[cold]
    #[inline(never)]
    fn stop_late(&self) {
        self.deferral.ask_again();
        // Uses the signal again, because then the kernel puts all registers on the stack.
        // SAFETY: this thread, and a signal that we handle.
        unsafe { libc::pthread_kill(libc::pthread_self(), signals::suspend()) };
    }
}

/// Whether a thread has stopped for the current stop.
pub(super) fn has_answered(this: &Thread) -> bool {
    HANDSHAKE.current() == Some(this.answered.load(Acquire))
}

/// After this long without a new answer, threads that did not answer are sent the signal again.
const AGAIN: Duration = Duration::from_millis(50);

/// An attempt ends when no thread has answered for this long: `SOON` while a lock is held, `LATE`
/// without it in the first attempt. Stopped threads also wait `LATE` for the loader's lock to be taken again.
const SOON: Duration = Duration::from_millis(10);
const LATE: Duration = Duration::from_millis(100);

/// How many of the stopped threads watch for that time.
const WATCHES: u32 = 4;

/// After this long, a thread that does not answer is reported: most likely it blocks the signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long all threads run between two attempts.
const REST: Duration = Duration::from_millis(1);

impl Threads {
    /// Stops every registered thread except this one and those in a blocking region.
    pub(crate) fn stop_world(&self) {
        self.try_until_stopped(|late| {
            let stop = begin();
            match self.wait_for_answers(stop, SOON + late) {
                0 => Ok(stop),
                missing => Err((stop, missing)),
            }
        });
    }

    /// The same, and calls `reader` when the world is stopped. The loader's lock is held from
    /// before threads are told to stop until `reader` is done. So no stopped thread holds that
    /// lock, and no other thread holds it while it waits for a lock that a stopped thread holds.
    ///
    /// A thread that blocks the signal and waits for the loader's lock can answer only after the
    /// lock is released. Then the lock is taken again while the world is stopped. Meanwhile a
    /// thread that is not stopped may have taken it, and may wait for a stopped thread: then the
    /// world is started, and everything is tried again. The same happens when the reader has too
    /// little room, because room can be made only while the world runs.
    pub(crate) fn stop_world_with(&self, reader: &mut impl AtStop) {
        self.try_until_stopped(|late| {
            let (mut stop, mut missing, mut done) = (0, 0, false);
            // It may be hard to get the lock again, so later attempts wait longer for answers
            // before they release it.
            let soon = SOON.max(late / 10).min(LATE);
            loader::while_held(|| {
                reader.prepare();
                stop = begin();
                missing = self.wait_for_answers(stop, soon);
                done = missing == 0 && reader.stopped();
            });
            if missing > 0 {
                missing = self.wait_for_answers(stop, late);
                done = missing == 0 && while_it_stands(stop, || reader.stopped());
            }
            if done { Ok(stop) } else { Err((stop, missing)) }
        });
    }

    /// Repeats `attempt`, with more time each, until it returns the number of the stop that it
    /// made. A failed attempt returns that number too, and how many threads did not answer: they
    /// may wait for a lock that a stopped thread holds, so all threads run for a moment. Each
    /// attempt gives threads more time, since a stack may have to be read from swap.
    fn try_until_stopped(&self, mut attempt: impl FnMut(Duration) -> Result<u32, (u32, u32)>) {
        let began = Instant::now();
        let (mut late, mut told) = (LATE, false);
        loop {
            let (stop, missing) = match attempt(late) {
                Ok(stop) => return self.tell(SUSPENDED, stop),
                Err(failed) => failed,
            };
            HANDSHAKE.end(stop);
            if began.elapsed() >= PATIENCE && !std::mem::replace(&mut told, true) {
                warn_of_failure(missing);
            }
            std::thread::sleep(REST);
            // If all threads answered, only the lock or the room was missing, and it is enough that
            // more threads answer while the lock is held. Such attempts are short; with doubled
            // times, all threads would soon wait for hours.
            if missing > 0 || late < LATE * 10 {
                late *= 2;
            }
        }
    }

    /// Waits until all threads have answered, or until none has for the time `most`. Returns how many did
    /// not.
    ///
    /// Each answer is one more thread that got a processor. With thousands of threads, or on a busy
    /// machine, all answers take much longer than `most`. To give up then would be to ask all of them
    /// again. If the rest wait for a lock that a stopped thread holds, there are no more answers.
    fn wait_for_answers(&self, stop: u32, most: Duration) -> u32 {
        let mut lately = Instant::now();
        // Counting answers is cheaper than looking at each thread. But the count may include
        // threads that nobody waits for: those that received a second signal, from the collector or
        // from the program. So each thread is checked at the end.
        let mut before = HANDSHAKE.answers();
        let mut seen = before;
        let mut missing = self.ask(stop, signals::suspend());
        loop {
            let answers = HANDSHAKE.answers();
            if answers != seen {
                (seen, lately) = (answers, Instant::now());
            }
            if answers.wrapping_sub(before) >= missing {
                before = answers;
                missing = self.ask(stop, 0);
            }
            let left = most.saturating_sub(lately.elapsed());
            if missing == 0 || left.is_zero() {
                fence(SeqCst);
                return missing;
            }
            let wait = Timespec::try_from(left.min(AGAIN)).ok();
            HANDSHAKE.wait_for_more(answers, wait.as_ref());
            if HANDSHAKE.answers() == answers {
                before = answers;
                missing = self.ask(stop, signals::suspend());
            }
        }
    }

    /// Calls the program's callback for each thread that answered a stop. Like libgc, this does it
    /// on the thread that stops the world.
    fn tell(&self, event: u32, stop: u32) {
        let Some(callback) = on_thread_event.get() else {
            return;
        };
        for thread in self.running() {
            // SAFETY: as in `all`.
            let this = unsafe { &*thread };
            if this.answered.load(Relaxed) == stop {
                callback(event, this.pthread as *mut libc::c_void);
            }
        }
    }

    /// Sends a signal (0 for none) to every thread that runs and has not answered. Returns how many
    /// of them still exist.
    fn ask(&self, stop: u32, signal: c_int) -> u32 {
        let mut missing = 0;
        for thread in self.running() {
            // SAFETY: as in `all`.
            let this = unsafe { &*thread };
            let stands = thread == current::get()
                || this.answered.load(Acquire) == stop
                || this.stack.blocked_at().is_some()
                || this.suspension.is_parked();
            if !stands && this.signal(signal) {
                missing += 1;
            }
        }
        missing
    }

    /// Starts the world again.
    pub(crate) fn start_world(&self) {
        if let Some(stop) = HANDSHAKE.current() {
            HANDSHAKE.end(stop);
            self.tell(UNSUSPENDED, stop);
        }
    }
}

/// The work to be done when the world is stopped and the loader's lock is held.
pub(crate) trait AtStop {
    /// Called before threads are told to stop; perhaps several times.
    fn prepare(&mut self);

    /// Called when the world is stopped; it must not allocate. False if the world has to run and
    /// everything has to be done again.
    fn stopped(&mut self) -> bool;
}

/// Warns the program that the world cannot be stopped.
fn warn_of_failure(missing: u32) {
    match missing {
        0 => diagnostics::warn(
            c"The loader's lock is not to be had while all threads are stopped: tried for %ld seconds\n",
            PATIENCE.as_secs() as usize,
        ),
        _ => diagnostics::warn(
            c"A thread does not stop: does it block the suspend signal? %ld threads wait\n",
            missing as usize,
        ),
    }
}

/// Begins a stop and returns its number, with `STANDS`.
fn begin() -> u32 {
    STOPPER.store(current::get(), Relaxed);
    HANDSHAKE.begin()
}

/// Takes the loader's lock while the world is stopped, calls `then`, and returns its result. False
/// if that took too long, so that a waiting thread has ended the stop.
fn while_it_stands(stop: u32, then: impl FnOnce() -> bool) -> bool {
    // To wake all threads would take long if there are many, and a single one might be inside a handler
    // of the program's that waits for something.
    HANDSHAKE.takes(stop, WATCHES);
    let mut done = false;
    loader::while_held(|| {
        done = HANDSHAKE.took(stop) && then();
    });
    done
}
