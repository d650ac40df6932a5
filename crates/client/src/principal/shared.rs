//! The state that the user's threads and the watcher share.

use super::join::Wish;
use super::outbox::Outbox;
use super::pending_releases::{self, Paid};
use crate::page_mapping::Window;
use crate::reading::Told;
use crate::{Connection, Error, Event, Reading, Result, Socket, Source};
use plimsoll_kernel::clock;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Adapter, CgroupPath, Id, Registered, Report, Set};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// A bit of the state: what is behind the window is changing now. The two bits below hold the
/// source, the bits above count such changes.
const CHANGING: u64 = 4;
const COUNT: u64 = 8;
/// How often a reader tries while the window changes, before it takes the lock.
const TRIES: usize = 4;
/// The longest single wait.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The state that the user's threads and the watcher share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The page. Read by all threads; only the watcher changes what is behind it.
    pub(super) window: Window,
    /// The source of the numbers, [`CHANGING`], and the number of changes of the window. Written by the
    /// watcher only.
    state: AtomicU64,
    /// When memory was given back last, `CLOCK_MONOTONIC` ns; 0 before the first time. Written under
    /// the lock of `inner`. Numbers that are older need `inner.paid`.
    paid_at: AtomicU64,
    inner: Mutex<Inner>,
    /// Wakes threads that wait for events.
    changed: Condvar,
    /// Wakes the watcher.
    wake: OwnedFd,
    /// Readable while there are events. Made when first asked for.
    notify: OnceLock<OwnedFd>,
    /// The connection for calls; empty while alone. Set by the watcher, used by any thread.
    control: Mutex<Option<Connection>>,
}

/// The part of [`Shared`] under its lock `inner`.
#[derive(Debug)]
struct Inner {
    /// The settings by the user of this crate.
    wish: Wish,
    /// The present state. Set by the watcher.
    now: Told,
    /// The state that waiting threads were told last. Set by these threads.
    told: Told,
    /// The principal at the present broker; `None` while alone.
    joined: Option<Known>,
    /// Messages that the watcher has to send.
    outbox: Outbox,
    /// Memory that was given back and does not show yet.
    paid: Paid,
    /// Whether one wait is to end without an event.
    interrupted: bool,
    /// Whether the principal was dropped: the watcher must end.
    closing: bool,
    /// The last failure with a broker; cleared by a join.
    error: Option<String>,
}

/// The identity of the principal at a broker.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its id.
    pub(super) id: Id,
    /// The broker's grant; absent if another process registered the principal.
    pub(super) registered: Option<Registered>,
    /// The broker's socket.
    pub(super) socket: Socket,
}

impl Inner {
    /// The present state, with what was given back.
    fn settled(&self) -> Told {
        Told {
            reading: self.paid.settle(self.now.reading),
            ..self.now
        }
    }
}

impl Shared {
    pub(super) fn new(wish: Wish) -> Result<Shared> {
        let nothing = Told {
            reading: Reading::NOTHING,
            joins: 0,
            joined: false,
        };
        Ok(Shared {
            window: Window::new()?,
            state: AtomicU64::new(Source::Local as u64),
            paid_at: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                wish,
                now: nothing,
                told: nothing,
                joined: None,
                outbox: Outbox::default(),
                paid: Paid::default(),
                interrupted: false,
                closing: false,
                error: None,
            }),
            changed: Condvar::new(),
            wake: new_eventfd()?,
            notify: OnceLock::new(),
            control: Mutex::new(None),
        })
    }

    // For readers.

    #[inline]
    pub(super) fn read(&self) -> Reading {
        let reading = match self.read_once() {
            Some(reading) => reading,
            None => self.read_again(),
        };
        if Nanos(self.paid_at.load(Ordering::Relaxed)) > pending_releases::as_of(&reading) {
            self.settled(reading)
        } else {
            reading
        }
    }

    /// Numbers that do not show yet what was given back.
    #[cold]
    #[inline(never)]
    fn settled(&self, reading: Reading) -> Reading {
        self.lock().paid.settle(reading)
    }

    /// One load. Takes the lock only if the window holds no number.
    #[inline]
    pub(super) fn limit(&self) -> Bytes {
        match self.window.view().limit() {
            Bytes::ZERO => Bytes(self.read_again().numbers.limit),
            limit => limit,
        }
    }

    #[inline]
    fn read_once(&self) -> Option<Reading> {
        let before = self.state.load(Ordering::Acquire);
        let page = self.window.view().read()?;
        fence(Ordering::Acquire);
        let quiet = before & CHANGING == 0 && self.state.load(Ordering::Relaxed) == before;
        quiet.then_some(Reading {
            numbers: page.numbers,
            source: Source::from_bits(before),
            generation: page.generation,
            heartbeat: Nanos(page.heartbeat),
        })
    }

    #[cold]
    #[inline(never)]
    fn read_again(&self) -> Reading {
        (0..TRIES)
            .find_map(|_| self.read_once())
            .unwrap_or_else(|| self.read_slowly())
    }

    /// For the time that the window shows no page: returns the last numbers and wakes the watcher.
    fn read_slowly(&self) -> Reading {
        let mut reading = self.lock().now.reading;
        if reading.source == Source::Broker && self.window.view().check().is_err() {
            reading.source = Source::Stale;
            self.nudge();
        }
        reading
    }

    pub(super) fn wait(&self, timeout: Duration) -> Event {
        let deadline = Instant::now() + timeout.min(LONGEST);
        let mut inner = self.lock();
        loop {
            let now = inner.settled();
            if let Some(event) = now.news_since(&inner.told) {
                inner.told = now;
                self.drain_notify();
                return event;
            }
            // Small changes are taken over without an event.
            inner.told = now;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || inner.interrupted || inner.closing {
                inner.interrupted = false;
                self.drain_notify();
                drop(inner);
                // Events skip small changes; the page has them.
                return Event::Timeout(self.read());
            }
            let (next, _) = self
                .changed
                .wait_timeout(inner, left)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            inner = next;
        }
    }

    pub(super) fn interrupt(&self) {
        self.lock().interrupted = true;
        self.changed.notify_all();
    }

    pub(super) fn notify_fd(&self) -> Result<BorrowedFd<'_>> {
        if self.notify.get().is_none() {
            let fd = new_eventfd()?;
            // Another thread may have set it first. Its descriptor serves as well.
            let _ = self.notify.set(fd);
            let inner = self.lock();
            self.ring_if_news(&inner);
        }
        self.notify.get().map(AsFd::as_fd).ok_or(Error::Alone {
            what: "the notification descriptor",
        })
    }

    // For callers.

    pub(super) fn report(&self, report: &Report) {
        let mut inner = self.lock();
        inner.outbox.add_report(report);
        drop(inner);
        self.nudge();
    }

    pub(super) fn released(&self, bytes: Bytes) {
        let mut inner = self.lock();
        inner.outbox.add_released(bytes);
        if bytes > Bytes::ZERO {
            let (now, shown) = (clock::now(), inner.now.reading);
            inner.paid.add(bytes, now, &shown);
            self.paid_at.store(now.0, Ordering::Relaxed);
            self.announce(&inner);
        }
        drop(inner);
        self.nudge();
    }

    /// Sets the process. Returns the principal's id while joined, and whether it may be any process.
    pub(super) fn wish_pid(&self, pid: u32) -> (Option<Id>, Option<bool>) {
        let mut inner = self.lock();
        inner.wish.register.pid = Some(pid);
        let id = inner.joined.as_ref().map(|joined| joined.id);
        (id, inner.wish.register.whole)
    }

    /// Sets the cgroup of its processes. Returns the principal's id while joined.
    pub(super) fn wish_cgroup(&self, cgroup: CgroupPath) -> Option<Id> {
        let mut inner = self.lock();
        inner.wish.contained = Some(cgroup);
        inner.joined.as_ref().map(|joined| joined.id)
    }

    /// Sets the adapter. Returns whether it changed.
    pub(super) fn wish_adapter(&self, adapter: Option<Adapter>) -> bool {
        self.lock().wish.steered_by(adapter)
    }

    pub(super) fn wish_set(&self, set: &Set) {
        self.lock().wish.merge(set);
    }

    pub(super) fn with_control<R>(
        &self,
        call: impl FnOnce(&mut Connection) -> Result<R>,
    ) -> Result<R> {
        let mut control = self.control.lock().unwrap_or_else(|e| e.into_inner());
        let connection = control.as_mut().ok_or(Error::Alone { what: "this call" })?;
        let result = call(connection);
        let broken = connection.is_broken();
        drop(control);
        if broken {
            self.nudge();
        }
        result
    }

    pub(super) fn id(&self) -> Option<Id> {
        self.lock().joined.as_ref().map(|joined| joined.id)
    }

    pub(super) fn registered(&self) -> Option<Registered> {
        self.lock()
            .joined
            .as_ref()
            .and_then(|joined| joined.registered.clone())
    }

    pub(super) fn socket(&self) -> Option<Socket> {
        self.lock()
            .joined
            .as_ref()
            .map(|joined| joined.socket.clone())
    }

    pub(super) fn candidates(&self) -> Vec<Socket> {
        self.lock().wish.candidates.clone()
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
        self.nudge();
    }

    /// Ends the registration. The watcher has ended.
    pub(super) fn hang_up(&self) {
        let control = self
            .control
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .take();
        if let Some(connection) = control {
            connection.hang_up();
        }
    }

    // For the watcher.

    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub(super) fn drain_wake(&self) {
        drain(&self.wake);
    }

    pub(super) fn closing(&self) -> bool {
        self.lock().closing
    }

    pub(super) fn wish(&self) -> Wish {
        self.lock().wish.clone()
    }

    /// Whether another process registered the principal.
    pub(super) fn is_anothers(&self) -> bool {
        self.lock().wish.existing.is_some()
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.lock().wish.register.pid
    }

    /// Runs `change`, which may change what is behind the window. Readers take the lock meanwhile.
    pub(super) fn change_window<R>(&self, source: Source, change: impl FnOnce(&Window) -> R) -> R {
        let before = self.state.load(Ordering::Relaxed);
        self.state.store(before | CHANGING, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let result = change(&self.window);
        let count = (before & !(CHANGING | 3)).wrapping_add(COUNT);
        self.state.store(count | source as u64, Ordering::Release);
        result
    }

    /// Takes new numbers over and wakes waiting threads.
    pub(super) fn tell(&self, reading: Reading) {
        let mut inner = self.lock();
        inner.now.reading = reading;
        self.announce(&inner);
    }

    /// Notes a join. The broker's page is behind the window already.
    pub(super) fn set_joined(&self, known: Known, control: Connection, reading: Reading) {
        *self.control.lock().unwrap_or_else(|e| e.into_inner()) = Some(control);
        let mut inner = self.lock();
        inner.joined = Some(known);
        inner.now = Told {
            reading,
            joins: inner.now.joins + 1,
            joined: true,
        };
        inner.outbox.start_anew();
        self.announce(&inner);
    }

    pub(super) fn set_alone(&self, reading: Reading) {
        *self.control.lock().unwrap_or_else(|e| e.into_inner()) = None;
        let mut inner = self.lock();
        inner.joined = None;
        inner.now.joined = false;
        inner.now.reading = reading;
        self.announce(&inner);
    }

    pub(super) fn set_error(&self, error: &Error) {
        self.lock().error = Some(error.to_string());
    }

    pub(super) fn clear_error(&self) {
        self.lock().error = None;
    }

    /// Takes what is to be sent. The merged report stays for the next join.
    pub(super) fn take_outbox(&self) -> Outbox {
        self.lock().outbox.take()
    }

    pub(super) fn control_is_broken(&self) -> bool {
        let control = self.control.lock().unwrap_or_else(|e| e.into_inner());
        control.as_ref().is_none_or(Connection::is_broken)
    }

    fn announce(&self, inner: &MutexGuard<'_, Inner>) {
        if inner.settled().news_since(&inner.told).is_some() {
            self.changed.notify_one();
            self.ring_if_news(inner);
        }
    }

    fn ring_if_news(&self, inner: &MutexGuard<'_, Inner>) {
        if let Some(fd) = self.notify.get()
            && inner.settled().news_since(&inner.told).is_some()
        {
            ring(fd);
        }
    }

    fn drain_notify(&self) {
        if let Some(fd) = self.notify.get() {
            drain(fd);
        }
    }

    fn nudge(&self) {
        ring(&self.wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn new_eventfd() -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| Error::Resource {
        doing: "make an event descriptor",
        source: errno.into(),
    })
}

/// Makes an eventfd readable. Fails only if it is already, which is fine.
fn ring(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Resets an eventfd. Fails only if it was not readable, which is fine.
fn drain(fd: &OwnedFd) {
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}
