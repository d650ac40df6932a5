//! A bounded wait for calls that may block. Files under `/proc/PID` are read under the process's
//! mmap lock, and files of a program may be on a disk or a server that does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Most threads that may be at work or still be blocked after they were given up. When there are this
/// many, no further work is begun.
const MOST_LEFT: usize = 32;
/// The threads of this program.
static ALL: Crowd = Crowd {
    left: AtomicUsize::new(0),
    most: MOST_LEFT,
};

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// It takes longer than it was given.
    #[error("it took too long")]
    Late,
    /// It was not begun, because too much that was begun earlier is still blocked. That says nothing of
    /// what it would have waited for.
    #[error(
        "{MOST_LEFT} earlier reads of processes or files that do not answer are still waiting, and no more \
         are begun"
    )]
    Crowded,
    /// It was not begun, because the system gave no thread.
    #[error("no thread could be had for it (a limit of processes or of memory)")]
    NoThread,
    /// It panicked.
    #[error("it broke off, which is a fault of this program; please report it")]
    Broken,
}

/// Work that was begun in a thread of its own.
#[derive(Debug)]
pub struct Begun<T>(std::result::Result<Running<T>, Missed>);

#[derive(Debug)]
struct Running<T> {
    result: Receiver<T>,
    /// Tells nothing, and ends with the thread.
    over: Receiver<()>,
}

impl<T> Begun<T> {
    /// Its result; or the reason that there is none, and a channel that closes when the late work is over.
    fn ended(self, limit: Duration) -> std::result::Result<T, (Missed, Option<Receiver<()>>)> {
        let running = self.0.map_err(|missed| (missed, None))?;
        match running.result.recv_timeout(limit) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) => Err((Missed::Late, Some(running.over))),
            Err(RecvTimeoutError::Disconnected) => Err((Missed::Broken, None)),
        }
    }
}

/// Does work in a thread of its own and returns what it returned. A thread that is given up ends by itself
/// once its call returns, or with this process.
///
/// # Errors
/// [`Missed::Late`] when it takes longer than `limit`; else as [`Missed`] says.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::result::Result<T, Missed> {
    ALL.begin(work).ended(limit).map_err(|(missed, _)| missed)
}

/// Work that runs in order: a late task holds back those after it, which most likely would wait for the same
/// thing. So a server that does not answer keeps no more threads than first asked it.
#[derive(Debug, Default)]
pub struct Turns(Vec<Receiver<()>>);

impl Turns {
    /// Begins work in a thread of its own, once all has ended that was late before. Waits at most `limit`
    /// for that; else it counts as late, too.
    pub fn begin<T: Send + 'static>(
        &mut self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Begun<T> {
        let end = Instant::now() + limit;
        self.0.retain(|over| {
            let left = end.saturating_duration_since(Instant::now());
            over.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
        });
        if self.0.is_empty() {
            ALL.begin(work)
        } else {
            Begun(Err(Missed::Late))
        }
    }

    /// The result of a task.
    ///
    /// # Errors
    /// As [`within`]; `limit` counts from now on.
    pub fn wait<T>(&mut self, begun: Begun<T>, limit: Duration) -> std::result::Result<T, Missed> {
        begun.ended(limit).map_err(|(missed, over)| {
            self.0.extend(over);
            missed
        })
    }

    /// As [`within`], once all has ended that was late before.
    ///
    /// # Errors
    /// As [`within`].
    pub fn within<T: Send + 'static>(
        &mut self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<T, Missed> {
        let begun = self.begin(limit, work);
        self.wait(begun, limit)
    }
}

/// Threads that are counted together.
struct Crowd {
    left: AtomicUsize,
    most: usize,
}

impl Crowd {
    fn begin<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Begun<T> {
        // Every thread counts until it has ended; the waiting one is soon over.
        if self.left.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.left.fetch_sub(1, Ordering::Relaxed);
            return Begun(Err(Missed::Crowded));
        }
        let (done, result) = mpsc::sync_channel(1);
        let (ends, over) = mpsc::channel();
        let begun = std::thread::Builder::new()
            .name("within".into())
            .spawn(move || {
                let (_counted, _ends) = (Counted(self), ends);
                // Nobody waits for it any more when the time is up.
                let _ = done.send(work());
            });
        match begun {
            Ok(_) => Begun(Ok(Running { result, over })),
            Err(_) => {
                self.left.fetch_sub(1, Ordering::Relaxed);
                Begun(Err(Missed::NoThread))
            }
        }
    }
}

/// Takes the thread out of the count, even after a panic.
struct Counted(&'static Crowd);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.left.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    /// Work that is blocked until the other end is dropped.
    fn blocked() -> (impl FnOnce() -> usize + Send + 'static, OwnedFd) {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let work = move || std::fs::File::from(from).read(&mut [0]).unwrap();
        (work, to)
    }

    #[test]
    fn what_blocks_is_given_up_and_what_does_not_is_returned() {
        assert_eq!(within(LONG, || 7), Ok(7));
        let (work, _to) = blocked();
        assert_eq!(within(SHORT, work), Err(Missed::Late));
    }

    #[test]
    fn a_panic_is_no_result() {
        let broken = within(LONG, || std::panic::resume_unwind(Box::new(0)));
        assert_eq!(broken, Err::<(), _>(Missed::Broken));
    }

    #[test]
    fn where_too_many_are_blocked_no_more_is_begun_and_nobody_is_called_late() {
        static TWO: Crowd = Crowd {
            left: AtomicUsize::new(0),
            most: 2,
        };
        let reason = |begun: Begun<usize>, limit| begun.ended(limit).map_err(|(missed, _)| missed);
        let both = [blocked(), blocked()].map(|(work, to)| {
            assert_eq!(reason(TWO.begin(work), SHORT), Err(Missed::Late));
            to
        });
        assert_eq!(reason(TWO.begin(|| 7), LONG), Err(Missed::Crowded));
        drop(both);
        let end = Instant::now() + LONG;
        while reason(TWO.begin(|| 7), LONG) != Ok(7) {
            assert!(Instant::now() < end, "threads that ended still count");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_late_holds_back_what_comes_after_it_until_it_ends() {
        let mut turns = Turns::default();
        let (work, to) = blocked();
        assert_eq!(turns.within(SHORT, work), Err(Missed::Late));
        let begun = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&begun);
        let second = turns.within(SHORT, move || tells.store(true, Ordering::Relaxed));
        assert_eq!(second, Err(Missed::Late));
        assert_eq!(Arc::strong_count(&begun), 1, "no thread was begun for it");
        assert!(!begun.load(Ordering::Relaxed));
        drop(to);
        assert_eq!(turns.within(LONG, || 7), Ok(7));
    }

    #[test]
    fn what_runs_beside_it_holds_nothing_back_before_it_is_late() {
        let mut turns = Turns::default();
        let (work, to) = blocked();
        let beside = turns.begin(LONG, work);
        assert_eq!(turns.within(LONG, || 7), Ok(7));
        assert_eq!(turns.wait(beside, SHORT), Err(Missed::Late));
        assert_eq!(turns.within(SHORT, || 7), Err(Missed::Late));
        drop(to);
        assert_eq!(turns.within(LONG, || 7), Ok(7));
    }
}
