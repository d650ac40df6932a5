//! The threads that run beside the deciding thread, and what they share with it.

use crate::error::Error;
use plimsoll_unit::Nanos;
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

/// State that the deciding thread and a background thread share, with a lock and a wake-up.
#[derive(Debug, Default)]
pub struct Monitor<S> {
    guarded: Mutex<Guarded<S>>,
    /// Wakes the background thread.
    wake: Condvar,
}

/// The state that the lock of a [`Monitor`] guards.
#[derive(Debug, Default)]
pub struct Guarded<S> {
    shared: S,
    /// The background thread must end. Set by the deciding thread.
    stop: bool,
}

impl<S> Deref for Guarded<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S> DerefMut for Guarded<S> {
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

impl<S> Monitor<S> {
    /// The shared state. To be held for a moment only.
    pub fn lock(&self) -> MutexGuard<'_, Guarded<S>> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; returns `false` when the thread must end.
    pub fn rest(&self, time: Duration) -> bool {
        self.rest_while(time, |_| true)
    }

    /// As [`Monitor::rest`], but no longer than `rests` holds.
    pub fn rest_while(&self, time: Duration, mut rests: impl FnMut(&mut S) -> bool) -> bool {
        let rests = |guarded: &mut Guarded<S>| !guarded.stop && rests(&mut guarded.shared);
        let woken = self.wake.wait_timeout_while(self.lock(), time, rests);
        let (guarded, _) = woken.unwrap_or_else(PoisonError::into_inner);
        !guarded.stop
    }

    /// Sleeps until there is something to do. `next` is told whether the thread must end.
    pub fn wait<T>(&self, mut next: impl FnMut(&mut S, bool) -> Next<T>) -> T {
        let mut guard = self.lock();
        loop {
            let Guarded { shared, stop } = &mut *guard;
            guard = match next(shared, *stop) {
                Next::Do(work) => return work,
                Next::Sleep(None) => {
                    (self.wake.wait(guard)).unwrap_or_else(PoisonError::into_inner)
                }
                Next::Sleep(Some(time)) => {
                    let woken = self.wake.wait_timeout(guard, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// A background thread, and the state that it shares with the deciding thread, which owns this. Dropping it
/// ends the thread and waits for that.
#[derive(Debug)]
pub struct Companion<S> {
    monitor: Arc<Monitor<S>>,
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
        run: impl FnOnce(Arc<Monitor<S>>) + Send + 'static,
    ) -> Result<Companion<S>, Error> {
        let monitor = Arc::new(Monitor::default());
        let theirs = Arc::clone(&monitor);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK)
            .spawn(move || run(theirs));
        let thread = thread.map_err(|source| Error::System {
            what: "a thread could not be started; raise the limit of tasks",
            source,
        })?;
        Ok(Companion {
            monitor,
            thread: Some(thread),
        })
    }

    /// One without a thread, whose state only the deciding thread sees.
    #[cfg(test)]
    pub(crate) fn without_thread() -> Companion<S> {
        Companion {
            monitor: Arc::default(),
            thread: None,
        }
    }
}

impl<S> Companion<S> {
    /// The shared state. To be held for a moment only.
    pub fn lock(&self) -> MutexGuard<'_, Guarded<S>> {
        self.monitor.lock()
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.monitor.wake.notify_all();
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

/// A companion that the deciding thread exchanges state with at intervals.
#[derive(Debug)]
pub struct Periodic<S> {
    companion: Companion<S>,
    every: Nanos,
    /// When the next exchange is due.
    next: Nanos,
}

impl<S> Periodic<S> {
    /// With an exchange each `every`, the first of them at once.
    #[must_use]
    pub fn new(companion: Companion<S>, every: Nanos) -> Periodic<S> {
        Periodic {
            companion,
            every,
            next: Nanos::ZERO,
        }
    }

    /// The shared state for the exchange, if that is due at `now` and the thread does not hold the lock.
    /// `sooner` says of the state how long before its time the exchange may be.
    pub fn exchange(
        &mut self,
        now: Nanos,
        sooner: impl FnOnce(&S) -> Nanos,
    ) -> Option<MutexGuard<'_, Guarded<S>>> {
        let guard = match self.companion.monitor.guarded.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if now < self.next - sooner(&guard) {
            return None;
        }
        self.next = now + self.every;
        Some(guard)
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.companion.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_waits_for_its_time_and_for_no_lock() {
        let mut periodic = Periodic::new(Companion::<Nanos>::without_thread(), Nanos(10));
        let monitor = Arc::clone(&periodic.companion.monitor);
        **monitor.lock() = Nanos(3);
        let held = monitor.lock();
        assert!(
            periodic.exchange(Nanos::ZERO, |_| Nanos::ZERO).is_none(),
            "it is in use"
        );
        drop(held);
        assert!(periodic.exchange(Nanos::ZERO, |_| Nanos::ZERO).is_some());
        assert!(periodic.exchange(Nanos(9), |_| Nanos::ZERO).is_none());
        assert!(periodic.exchange(Nanos(6), |state| *state).is_none());
        assert!(periodic.exchange(Nanos(7), |state| *state).is_some());
        assert!(periodic.exchange(Nanos(16), |_| Nanos::ZERO).is_none());
        assert!(periodic.exchange(Nanos(17), |_| Nanos::ZERO).is_some());
    }
}
