//! A bounded wait for calls that may block. Files under `/proc/PID` are read under the process's
//! mmap lock, and files of a program may be on a disk or a server that does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Threads that were given up and are still blocked.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// Most such threads. When there are this many, no further work is begun.
const MOST_LEFT: usize = 32;

/// Work that was begun in a thread of its own.
#[derive(Debug)]
pub struct Begun<T>(Option<mpsc::Receiver<T>>);

impl<T> Begun<T> {
    /// What it returned, or `None` when it takes longer than `limit` from now on, when it panicked, or
    /// when no thread could be had. A thread that is given up ends by itself once its call returns, or
    /// with this process.
    pub fn wait(self, limit: Duration) -> Option<T> {
        self.0?.recv_timeout(limit).ok()
    }
}

/// Begins work in a thread of its own.
pub fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Begun<T> {
    // Every thread counts until it has ended; the waiting one is soon over.
    if LEFT.fetch_add(1, Ordering::Relaxed) >= MOST_LEFT {
        LEFT.fetch_sub(1, Ordering::Relaxed);
        return Begun(None);
    }
    let (done, result) = mpsc::sync_channel(1);
    let begun = std::thread::Builder::new()
        .name("within".into())
        .spawn(move || {
            let _counted = Counted;
            // Nobody waits for it any more when the time is up.
            let _ = done.send(work());
        });
    match begun {
        Ok(_) => Begun(Some(result)),
        Err(_) => {
            LEFT.fetch_sub(1, Ordering::Relaxed);
            Begun(None)
        }
    }
}

/// Does work in a thread of its own and returns what it returned, or `None` as [`Begun::wait`] does.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    begin(work).wait(limit)
}

/// Takes the thread out of the count, even after a panic.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        LEFT.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_blocks_is_given_up_and_what_does_not_is_returned() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (from, to) = rustix::pipe::pipe().unwrap();
        let blocked = within(Duration::from_millis(20), move || {
            std::fs::File::from(from).read(&mut [0])
        });
        assert!(blocked.is_none());
        drop(to);
    }

    #[test]
    fn a_panic_is_no_result() {
        assert_eq!(
            within(Duration::from_secs(60), || {
                std::panic::resume_unwind(Box::new(0))
            }),
            None::<()>
        );
    }
}
