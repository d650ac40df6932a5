//! The threads that run beside the deciding thread, and what they share with it.

use crate::error::Error;
use rustix::event::{EventfdFlags, eventfd};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Stack size of a background thread, bytes.
const STACK: usize = 256 * 1024;

/// Wakes the deciding thread when there are results: an eventfd.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Makes one.
    ///
    /// # Errors
    /// [`Error::System`] when no descriptor can be created.
    pub fn new() -> Result<Arc<Bell>, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = eventfd(0, flags).map_err(Error::system(
            "eventfd failed; raise the limit of open files",
        ))?;
        Ok(Arc::new(Bell(fd)))
    }

    /// There are results.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// The results are about to be taken.
    pub fn silence(&self) {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.0, &mut counter);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// State that the deciding thread and a background thread share.
#[derive(Debug, Default)]
pub struct Place<S> {
    held: Mutex<Held<S>>,
    /// Wakes the background thread.
    wake: Condvar,
}

/// The state that the lock of a [`Place`] guards.
#[derive(Debug, Default)]
pub struct Held<S> {
    shared: S,
    /// The background thread must end. Set by the deciding thread.
    stop: bool,
}

impl<S> Deref for Held<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S> DerefMut for Held<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.shared
    }
}

/// The next step of a background thread.
pub enum Next<T> {
    /// This.
    Do(T),
    /// It sleeps until it is woken, or until this time has passed.
    Sleep(Option<Duration>),
}

impl<S> Place<S> {
    /// The shared state. To be held for a moment only.
    pub fn lock(&self) -> MutexGuard<'_, Held<S>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; returns `false` when the thread must end.
    pub fn rest(&self, time: Duration) -> bool {
        self.rest_while(time, |_| true)
    }

    /// As [`Place::rest`], but no longer than `rests` holds.
    pub fn rest_while(&self, time: Duration, mut rests: impl FnMut(&mut S) -> bool) -> bool {
        let rests = |held: &mut Held<S>| !held.stop && rests(&mut held.shared);
        let woken = self.wake.wait_timeout_while(self.lock(), time, rests);
        let (held, _) = woken.unwrap_or_else(PoisonError::into_inner);
        !held.stop
    }

    /// Sleeps until there is something to do. `next` is told whether the thread must end.
    pub fn wait<T>(&self, mut next: impl FnMut(&mut S, bool) -> Next<T>) -> T {
        let mut held = self.lock();
        loop {
            let Held { shared, stop } = &mut *held;
            held = match next(shared, *stop) {
                Next::Do(work) => return work,
                Next::Sleep(None) => (self.wake.wait(held)).unwrap_or_else(PoisonError::into_inner),
                Next::Sleep(Some(time)) => {
                    let woken = self.wake.wait_timeout(held, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// A background thread, and the place where it meets the deciding thread, which owns this. Dropping it ends
/// the thread and waits for that.
#[derive(Debug)]
pub struct Companion<S> {
    place: Arc<Place<S>>,
    /// The thread, until it is joined.
    thread: Option<JoinHandle<()>>,
}

impl<S: Default + Send + 'static> Companion<S> {
    /// Starts a thread with this name, which runs until it is told to end.
    ///
    /// # Errors
    /// [`Error::System`] when it cannot be created.
    pub fn start(
        name: &str,
        run: impl FnOnce(Arc<Place<S>>) + Send + 'static,
    ) -> Result<Companion<S>, Error> {
        let place = Arc::new(Place::default());
        let theirs = Arc::clone(&place);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK)
            .spawn(move || run(theirs));
        let thread = thread.map_err(|source| Error::System {
            what: "a thread could not be started; raise the limit of tasks",
            source,
        })?;
        Ok(Companion {
            place,
            thread: Some(thread),
        })
    }

    /// A place where nobody comes.
    #[cfg(test)]
    pub(crate) fn without_thread() -> Companion<S> {
        Companion {
            place: Arc::default(),
            thread: None,
        }
    }
}

impl<S> Companion<S> {
    /// The shared state. To be held for a moment only.
    pub fn lock(&self) -> MutexGuard<'_, Held<S>> {
        self.place.lock()
    }

    /// The shared state, if the thread does not hold the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Held<S>>> {
        match self.place.held.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.place.wake.notify_all();
    }
}

impl<S> Drop for Companion<S> {
    fn drop(&mut self) {
        self.lock().stop = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// When the deciding thread next exchanges what it knows with a companion. Times in nanoseconds.
#[derive(Debug)]
pub struct Turn {
    every: u64,
    next: u64,
}

impl Turn {
    /// One that is due at once.
    #[must_use]
    pub fn every(every: u64) -> Turn {
        Turn { every, next: 0 }
    }

    /// Whether it is due at `now`, or `sooner` before its time.
    #[must_use]
    pub fn is_due(&self, now: u64, sooner: u64) -> bool {
        now >= self.next.saturating_sub(sooner)
    }

    /// It was taken at `now`.
    pub fn taken(&mut self, now: u64) {
        self.next = now.saturating_add(self.every);
    }
}
