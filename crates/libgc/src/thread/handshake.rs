//! The handshake by which the world is stopped: one thread begins a stop, the others answer it, and wait
//! until it ends. How they learn of it, and whose answers are missing, is the business of `stop`.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, Timespec, futex};

/// Bit of a stop's number: the world is stopped, or about to be.
const STANDS: u32 = 1;
/// Bit of a stop's number: the loader's lock is being taken while the world is stopped.
const TAKES: u32 = 2;
/// The difference between one stop's number and the next.
const NEXT: u32 = 4;

/// The state that all threads share.
pub(crate) struct Handshake {
    /// The number of the current stop, plus [`STANDS`]; while the world runs, the number of the next
    /// one, a multiple of [`NEXT`]. During a stop it may also include [`TAKES`].
    stop: AtomicU32,
    /// How many answers there were since the start, to all stops.
    answers: AtomicU32,
}

impl Handshake {
    pub(crate) const fn new() -> Handshake {
        Handshake {
            stop: AtomicU32::new(0),
            answers: AtomicU32::new(0),
        }
    }

    /// Begins a stop and returns its number. One thread at a time does this.
    pub(crate) fn begin(&self) -> u32 {
        self.stop.fetch_add(STANDS, SeqCst) | STANDS
    }

    /// Ends this stop, if it is still under way, and lets all threads go on.
    pub(crate) fn end(&self, stop: u32) {
        self.end_from(stop, stop);
    }

    fn end_from(&self, now: u32, stop: u32) {
        let next = (stop & !STANDS).wrapping_add(NEXT);
        let ended = self.stop.compare_exchange(now, next, SeqCst, Relaxed);
        if ended.is_ok() {
            let _ = futex::wake(&self.stop, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// The number of the stop that is under way. `None` while the world runs.
    pub(crate) fn current(&self) -> Option<u32> {
        let stop = self.stop.load(Acquire) & !TAKES;
        (stop & STANDS != 0).then_some(stop)
    }

    /// Answers a stop: all that this thread did before is known to the thread that began it. `answered` is
    /// the number of the last stop that this thread answered.
    pub(crate) fn answer(&self, stop: u32, answered: &AtomicU32) {
        answered.store(stop, Release);
        self.answers.fetch_add(1, Release);
        let _ = futex::wake(&self.answers, futex::Flags::PRIVATE, 1);
    }

    /// Waits until a stop ends. If the loader's lock is not taken within the time `most`, this thread ends
    /// the stop itself.
    pub(crate) fn stand(&self, stop: u32, most: Option<&Timespec>) {
        loop {
            let now = self.stop.load(Acquire);
            if now & !TAKES != stop {
                return;
            }
            let limit = most.filter(|_| now & TAKES != 0);
            let waited = futex::wait(&self.stop, futex::Flags::PRIVATE, now, limit);
            if waited == Err(rustix::io::Errno::TIMEDOUT) {
                self.end_from(stop | TAKES, stop);
            }
        }
    }

    /// How many answers there were, to all stops.
    pub(crate) fn answers(&self) -> u32 {
        self.answers.load(Acquire)
    }

    /// Waits until there are more answers than these, or for the time `most`.
    pub(crate) fn wait_for_more(&self, answers: u32, most: Option<&Timespec>) {
        let _ = futex::wait(&self.answers, futex::Flags::PRIVATE, answers, most);
    }

    /// Announces that the loader's lock is being taken during this stop. From now on, `watches` of the
    /// stopped threads watch the time.
    pub(crate) fn takes(&self, stop: u32, watches: u32) {
        self.stop.store(stop | TAKES, SeqCst);
        let _ = futex::wake(&self.stop, futex::Flags::PRIVATE, watches);
    }

    /// The loader's lock is taken. False if that took too long, so that a waiting thread has ended the stop.
    pub(crate) fn took(&self, stop: u32) -> bool {
        let taken = self
            .stop
            .compare_exchange(stop | TAKES, stop, SeqCst, Relaxed);
        taken.is_ok()
    }
}
