//! Stopping the world: each thread is sent a signal, and waits in its handler until the world starts again.
//!
//! A stop has a number, which [says](STANDS) whether the world stands still. A thread answers a stop
//! by leaving where the kernel has put its registers and counting itself. A thread that is between
//! the lines of its bins comes back to the handler when it is through ([`Thread::leave_bins`]).

use super::{SUSPENDED, Thread, Threads, UNSUSPENDED, current};
use crate::settings::on_thread_event;
use crate::{collector, loader, report};
use libc::{c_int, c_ulong, siginfo_t};
use rustix::thread::futex;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, fence};
use std::time::{Duration, Instant};

/// The number of the stop that is under way, or of none: a multiple of [`NEXT`] while the world
/// runs. It may have [`TAKES`] besides.
static STOP: AtomicU32 = AtomicU32::new(0);
/// Said in the number: the world stands still, or is about to.
const STANDS: u32 = 1;
/// Said beside the number: the loader's lock is being taken while the world stands.
const TAKES: u32 = 2;
/// From one number to the next.
const NEXT: u32 = 4;
/// Who stops the world: a suspend signal that the program sends it means nothing.
static STOPPER: AtomicPtr<Thread> = AtomicPtr::new(null_mut());
/// How many answers ever came.
static ANSWERS: AtomicU32 = AtomicU32::new(0);

/// Signals that a program may set before the first thread, and ask for.
pub(crate) mod signals {
    use super::*;

    static SUSPEND: AtomicU32 = AtomicU32::new(libc::SIGPWR as u32);
    static RESTART: AtomicU32 = AtomicU32::new(libc::SIGXCPU as u32);

    /// The signal that stops a thread.
    pub(crate) fn suspend() -> c_int {
        SUSPEND.load(Relaxed) as c_int
    }

    #[unsafe(no_mangle)]
    extern "C-unwind" fn GC_get_suspend_signal() -> c_int {
        suspend()
    }

    #[unsafe(no_mangle)]
    extern "C-unwind" fn GC_get_thr_restart_signal() -> c_int {
        RESTART.load(Relaxed) as c_int
    }

    /// Without effect once the handler is installed.
    #[unsafe(no_mangle)]
    extern "C-unwind" fn GC_set_suspend_signal(signal: c_int) {
        if !collector::is_ready() {
            SUSPEND.store(signal as u32, Relaxed);
        }
    }

    /// Nothing is sent to restart a thread here: it waits for a number to change.
    #[unsafe(no_mangle)]
    extern "C-unwind" fn GC_set_thr_restart_signal(signal: c_int) {
        if !collector::is_ready() {
            RESTART.store(signal as u32, Relaxed);
        }
    }

    /// By which the C library cancels a thread; the first of its own.
    const CANCEL: c_int = 32;

    extern "C" fn on_restart(_: c_int) {}

    /// Installs the handlers.
    pub(crate) fn install() {
        // SAFETY: a handler that only does what may be done in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_stop as *const () as usize;
            // A stack that the program switched to may have no room for handlers (Go's): one that
            // it has for them is taken.
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
            // A thread that is cancelled where it waits is so once it goes on: the C library
            // unwinds from its own handler, and ours is not to be left so. It has a set never hold
            // that signal, but takes one that does.
            let mask = (&raw mut action.sa_mask).cast::<c_ulong>();
            *mask |= 1 << (CANCEL - 1);
            libc::sigaction(suspend(), &action, std::ptr::null_mut());
            // As with libgc, the program lives on where it is sent the other.
            action.sa_sigaction = on_restart as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(
                RESTART.load(Relaxed) as c_int,
                &action,
                std::ptr::null_mut(),
            );
        }
    }

    /// Lets the signal through to this thread.
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
    if let Some(this) = unsafe { current::get().as_ref() } {
        if this.busy.load(Relaxed) {
            this.wanted.store(true, Relaxed);
        } else {
            wait(this, context as usize);
            this.park(context as usize);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Answers the stop that is under way, if it was not answered, and waits until it ends. The
/// thread's registers are at `context`: on its stack, or on that of its handlers.
fn wait(this: &Thread, context: usize) {
    let stop = STOP.load(Acquire) & !TAKES;
    // Nobody waits for one that blocks; and it may have a lock that the collector will want, as the loader's.
    if stop & STANDS == 0
        || this.answered.load(Relaxed) == stop
        || this.blocked_at.load(Relaxed) != 0
        || std::ptr::eq(this, STOPPER.load(Relaxed))
    {
        return;
    }
    this.stopped_at.store(context, Relaxed);
    this.answered.store(stop, Release);
    ANSWERS.fetch_add(1, Release);
    let _ = futex::wake(&ANSWERS, futex::Flags::PRIVATE, 1);
    stand(stop);
}

/// Waits until a stop ends. Where the loader's lock is not had in time, whoever stands ends it.
fn stand(stop: u32) {
    let most = rustix::time::Timespec::try_from(LATE).ok();
    loop {
        let now = STOP.load(Acquire);
        if now & !TAKES != stop {
            return;
        }
        let limit = most.as_ref().filter(|_| now & TAKES != 0);
        let waited = futex::wait(&STOP, futex::Flags::PRIVATE, now, limit);
        if waited == Err(rustix::io::Errno::TIMEDOUT) {
            let _ = end(stop | TAKES);
        }
    }
}

impl Thread {
    /// Sends it a signal; false if it is gone. Signal 0 only asks.
    pub(super) fn signal(&self, signal: c_int) -> bool {
        // SAFETY: only a signal; a thread that is gone gets none.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.id, signal) == 0 }
    }

    /// From here to [`leave_bins`](Thread::leave_bins) this thread is not stopped.
    #[inline(always)]
    pub(crate) fn enter_bins(&self) {
        self.busy.store(true, Relaxed);
        std::sync::atomic::compiler_fence(SeqCst);
    }

    /// From here on it may be stopped again; if it was to be meanwhile, it is.
    #[inline(always)]
    pub(crate) fn leave_bins(&self) {
        std::sync::atomic::compiler_fence(SeqCst);
        self.busy.store(false, Relaxed);
        std::sync::atomic::compiler_fence(SeqCst);
        if self.wanted.load(Relaxed) {
            self.stop_late();
        }
    }

    #[cold]
    #[inline(never)]
    fn stop_late(&self) {
        self.wanted.store(false, Relaxed);
        // By the signal again, because the kernel puts all registers on the stack.
        // SAFETY: this thread, and a signal that we handle.
        unsafe { libc::pthread_kill(libc::pthread_self(), signals::suspend()) };
    }
}

/// Whether a thread stands since the stop that is under way.
pub(super) fn has_answered(this: &Thread) -> bool {
    this.answered.load(Acquire) == STOP.load(Relaxed) & !TAKES
}

/// How long to wait for answers before threads that did not answer are sent the signal again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long threads are waited for while a lock is held, and without it the first time. The latter is
/// also how long those that stand wait for the lock to be taken again.
const SOON: Duration = Duration::from_millis(10);
const LATE: Duration = Duration::from_millis(100);
/// So many of those that stand look at that time.
const WATCHES: u32 = 4;
/// After so long a thread that does not answer is reported: most likely it blocks the signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries all go on for so long.
const REST: Duration = Duration::from_millis(1);

impl Threads {
    /// Stops every registered thread but this one, and those that block in a blocking region.
    pub(crate) fn stop_world(&self) {
        self.try_until_stopped(|late| {
            let stop = begin();
            match self.wait_for_answers(stop, SOON + late) {
                0 => Ok(stop),
                missing => Err((stop, missing)),
            }
        });
    }

    /// The same, and has `reader` work when the world stands still. The loader's lock is held from
    /// before threads are told to stop until that is done. So no stopped thread has it, and nobody
    /// else has it and waits for what a stopped thread holds.
    ///
    /// A thread that blocks the signal and waits for the lock answers when the lock is released. Then
    /// it is taken again while the world stands. A thread that is not stopped may have it meanwhile,
    /// and wait for a stopped one: then the world goes on, and all is tried again. So it is where the
    /// reader has too little room, which is made only while the world runs.
    pub(crate) fn stop_world_with(&self, reader: &mut impl AtStop) {
        self.try_until_stopped(|late| {
            let (mut stop, mut missing, mut done) = (0, 0, false);
            // The lock may be hard to get again: then more should have answered before it is released.
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
            match done {
                true => Ok(stop),
                false => Err((stop, missing)),
            }
        });
    }

    /// Tries, with ever more time, until an attempt says which stop it made. One that fails says that,
    /// too, and how many threads did not answer: they may wait for a lock that a stopped thread holds,
    /// so all run for a moment. Threads have longer to answer at each try, since one may have to be
    /// read from swap.
    fn try_until_stopped(&self, mut attempt: impl FnMut(Duration) -> Result<u32, (u32, u32)>) {
        let began = Instant::now();
        let (mut late, mut told) = (LATE, false);
        loop {
            let (stop, missing) = match attempt(late) {
                Ok(stop) => return self.tell(SUSPENDED, stop),
                Err(failed) => failed,
            };
            let _ = end(stop);
            if began.elapsed() >= PATIENCE && !std::mem::replace(&mut told, true) {
                warn_of_failure(missing);
            }
            std::thread::sleep(REST);
            // All answered, but there was no lock, or no room: what lets more answer while the lock is
            // held is enough. Such attempts are short, and soon all would wait for hours.
            if missing > 0 || late < LATE * 10 {
                late *= 2;
            }
        }
    }

    /// How many did not answer in that time.
    fn wait_for_answers(&self, stop: u32, most: Duration) -> u32 {
        let began = Instant::now();
        // Counting answers saves looking at each thread. A count may include threads that nobody waits for:
        // one that got a second signal, from us or from the program. So in the end we look which threads did
        // not answer.
        let mut before = ANSWERS.load(Acquire);
        let mut missing = self.ask(stop, signals::suspend());
        loop {
            let answers = ANSWERS.load(Acquire);
            if answers.wrapping_sub(before) >= missing {
                before = answers;
                missing = self.ask(stop, 0);
            }
            let left = most.saturating_sub(began.elapsed());
            if missing == 0 || left.is_zero() {
                fence(SeqCst);
                return missing;
            }
            let wait = rustix::time::Timespec::try_from(left.min(AGAIN)).ok();
            let _ = futex::wait(&ANSWERS, futex::Flags::PRIVATE, answers, wait.as_ref());
            if ANSWERS.load(Acquire) == answers {
                before = answers;
                missing = self.ask(stop, signals::suspend());
            }
        }
    }

    /// Tells the program of each thread that answered a stop: from the thread that stops, as libgc does.
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

    /// Sends a signal (0 is none) to every thread that runs and has not answered, and says how many
    /// are still there.
    fn ask(&self, stop: u32, signal: c_int) -> u32 {
        let mut missing = 0;
        for thread in self.running() {
            // SAFETY: as in `all`.
            let this = unsafe { &*thread };
            let stands = thread == current::get()
                || this.answered.load(Acquire) == stop
                || this.blocked_at.load(Acquire) != 0
                || this.parked.load(Acquire) != 0;
            if !stands && this.signal(signal) {
                missing += 1;
            }
        }
        missing
    }

    /// Lets all go on.
    pub(crate) fn start_world(&self) {
        let stop = STOP.load(Relaxed);
        let _ = end(stop);
        self.tell(UNSUSPENDED, stop);
    }
}

/// What is done when the world is stopped, with the loader's lock held.
pub(crate) trait AtStop {
    /// Before threads are told to stop, which may be several times.
    fn prepare(&mut self);

    /// When the world stands still: nothing may be allocated. False where the world has to run, and
    /// all to be done again.
    fn stopped(&mut self) -> bool;
}

/// Warns the program that the world does not come to a stop.
fn warn_of_failure(missing: u32) {
    match missing {
        0 => report::warn(
            c"The loader's lock is not to be had while all threads are stopped: tried for %ld seconds\n",
            PATIENCE.as_secs() as usize,
        ),
        _ => report::warn(
            c"A thread does not stop: does it block the suspend signal? %ld threads wait\n",
            missing as usize,
        ),
    }
}

/// Begins a stop, and says which that is.
fn begin() -> u32 {
    STOPPER.store(current::get(), Relaxed);
    STOP.fetch_add(STANDS, SeqCst) | STANDS
}

/// Ends the stop that is under way, if it is this one, and lets all go on.
fn end(stop: u32) -> Result<u32, u32> {
    let next = (stop & !(STANDS | TAKES)).wrapping_add(NEXT);
    let ended = STOP.compare_exchange(stop, next, SeqCst, Relaxed);
    if ended.is_ok() {
        let _ = futex::wake(&STOP, futex::Flags::PRIVATE, u32::MAX >> 1);
    }
    ended
}

/// Takes the loader's lock for `then`, while the world stands, and gives what that does. False where
/// the lock took too long, and whoever stood has ended the stop.
fn while_it_stands(stop: u32, then: impl FnOnce() -> bool) -> bool {
    STOP.store(stop | TAKES, SeqCst);
    // Some of those that stand are to look at the time from now on: all of many would take long to
    // wake, and a single one may be in a handler of the program's that waits for something.
    let _ = futex::wake(&STOP, futex::Flags::PRIVATE, WATCHES);
    let mut done = false;
    loader::while_held(|| {
        let taken = STOP.compare_exchange(stop | TAKES, stop, SeqCst, Relaxed);
        done = taken.is_ok() && then();
    });
    done
}
