//! Starts the threads that run beside the deciding thread.

use crate::error::Error;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Stack size of a background thread, bytes.
const STACK: usize = 256 * 1024;
/// Interval at which the deciding thread and a [`Companion`] exchange what they know, ns.
const EXCHANGE_NS: u64 = 1_000_000_000;

/// Makes the eventfd that a background thread signals when it has results.
///
/// # Errors
/// [`Error::System`] when no descriptor can be created.
pub fn ready() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(Error::system(
        "eventfd failed; raise the limit of open files",
    ))
}

/// Starts a thread with this name.
///
/// # Errors
/// [`Error::System`] when the thread cannot be created.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|source| Error::System {
            what: "a thread could not be started; raise the limit of tasks",
            source,
        })
}

/// What the deciding thread and a [`Companion`] exchange, and the end of the latter.
#[derive(Debug, Default)]
pub struct Meeting<E> {
    exchange: Mutex<E>,
    /// The companion must end. Set by the deciding thread.
    stop: Mutex<bool>,
    wake: Condvar,
}

impl<E> Meeting<E> {
    /// What is exchanged. To be held for a moment only.
    pub fn lock(&self) -> MutexGuard<'_, E> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; returns `false` when the companion must end.
    pub fn rest(&self, time: Duration) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let (stop, _) = self
            .wake
            .wait_timeout_while(stop, time, |stop| !*stop)
            .unwrap_or_else(PoisonError::into_inner);
        !*stop
    }
}

/// A background thread that exchanges `E` with the deciding thread once a second. Dropping it ends
/// the thread and waits for that.
#[derive(Debug)]
pub struct Companion<E> {
    meeting: Arc<Meeting<E>>,
    /// The thread, until it is joined.
    thread: Option<JoinHandle<()>>,
    /// Time of the next exchange, ns.
    next: u64,
}

impl<E: Default + Send + 'static> Companion<E> {
    /// Starts a thread with this name, which runs until [`Meeting::rest`] returns `false`.
    ///
    /// # Errors
    /// [`Error::System`] when it cannot be created.
    pub fn start(
        name: &str,
        run: impl FnOnce(Arc<Meeting<E>>) + Send + 'static,
    ) -> Result<Companion<E>, Error> {
        let meeting = Arc::new(Meeting::default());
        let theirs = Arc::clone(&meeting);
        Ok(Companion {
            thread: Some(spawn(name, move || run(theirs))?),
            meeting,
            next: 0,
        })
    }
}

impl<E> Companion<E> {
    /// What is exchanged, if that is due at `now` (ns) and the thread does not hold the lock.
    pub fn due(&mut self, now: u64) -> Option<MutexGuard<'_, E>> {
        if now < self.next {
            return None;
        }
        let exchange = self.meeting.exchange.try_lock().ok()?;
        self.next = now.saturating_add(EXCHANGE_NS);
        Some(exchange)
    }
}

impl<E> Drop for Companion<E> {
    fn drop(&mut self) {
        let stop = &self.meeting.stop;
        *stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.meeting.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
