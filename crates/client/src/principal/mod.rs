//! A principal: registered with a broker, or on its own.

mod builder;
mod join;
mod outbox;
mod shared;
mod watcher;

pub use builder::Builder;

use crate::{Error, Event, Reading, Result, Socket, thread};
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Adapter, Id, Registered, Report, Set};
use shared::Shared;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A principal and its one thread. Dropping it ends the registration. `Send` and `Sync`: any thread
/// may read, wait and report.
///
/// After a `fork` without `exec` the child may read, but nobody watches for it: its numbers only
/// follow the broker's page, not the broker's death.
#[derive(Debug)]
pub struct Principal {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
    /// The process that started the watcher.
    home: u32,
}

impl Principal {
    /// Begins a registration under that name: 1 to 64 bytes of printable text.
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// The numbers now: a few loads, no lock, no system call. Never fails and never blocks; what it
    /// is worth is in [`Reading::source`].
    #[inline]
    pub fn read(&self) -> Reading {
        self.shared.read()
    }

    /// Bytes it may use now, by one load; as [`Principal::read`].
    #[inline]
    pub fn limit(&self) -> u64 {
        self.shared.limit()
    }

    /// Waits until something is to be told, or that time is over. One stream of events per
    /// principal: of several threads that wait, one gets each.
    pub fn wait(&self, timeout: Duration) -> Event {
        self.shared.wait(timeout)
    }

    /// Makes one [`Principal::wait`], of another thread now or the next one, come back with
    /// [`Event::Timeout`].
    pub fn interrupt(&self) {
        self.shared.interrupt();
    }

    /// A descriptor that is readable while there is something to be told, for programs with a poll
    /// loop of their own; call [`Principal::wait`] with no time then, until it says timeout.
    ///
    /// # Errors
    /// [`Error::Resource`] when the kernel gives none.
    pub fn notify_fd(&self) -> Result<BorrowedFd<'_>> {
        self.shared.notify_fd()
    }

    /// Tells what is known of the program; absent fields keep their last value, `id` is filled in.
    /// Does not wait: the watcher sends it, and again after a rejoin.
    pub fn report(&self, report: &Report) {
        self.shared.report(report);
    }

    /// Tells that the program gave bytes back. Does not wait.
    pub fn released(&self, bytes: u64) {
        self.shared.released(bytes);
    }

    /// Gives it its process, in the broker's pid namespace. When alone, it is kept for the join.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn attach(&self, pid: u32) -> Result<()> {
        checks::pid(pid)?;
        let id = self.shared.wish_pid(pid);
        self.kept(id, |connection, id| connection.attach(id, pid))
    }

    /// Tells who steers it from now on; nobody when absent. When alone, it is kept for the join. Asks
    /// the broker only when that is news.
    ///
    /// # Errors
    /// The broker's refusal, or `BadName` before it is asked.
    pub fn adapt(&self, adapter: Option<&str>) -> Result<()> {
        let adapter = adapter.map(Adapter::new).transpose()?;
        if !self.shared.wish_adapter(adapter.clone()) {
            return Ok(());
        }
        let id = self.shared.id();
        self.kept(id, |connection, id| connection.adapt(id, adapter))
    }

    /// Changes it; absent fields stay, `id` is filled in. When alone, it is kept for the join.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn set(&self, set: &Set) -> Result<()> {
        let id = self.shared.id();
        self.kept(id, |connection, id| connection.set(&Set { id, ..*set }))?;
        self.shared.wish_set(set);
        Ok(())
    }

    /// Begins the registration of a child: it lives within what this one gets, and follows it when
    /// a broker comes back.
    pub fn child(&self, name: &str) -> Builder {
        Builder::new(name).below(Arc::clone(&self.shared))
    }

    /// Its number with the broker that it is joined to; another after a rejoin.
    pub fn id(&self) -> Option<Id> {
        self.shared.id()
    }

    /// What the broker granted, while joined by an own registration: page, pressure socket, cgroup.
    pub fn registered(&self) -> Option<Registered> {
        self.shared.registered()
    }

    /// The broker's socket, while joined.
    pub fn socket(&self) -> Option<Socket> {
        self.shared.socket()
    }

    /// Why the last try to join, report or release failed, for people to read.
    pub fn last_error(&self) -> Option<String> {
        self.shared.last_error()
    }

    /// Where the numbers are read, for who wants to read them without a call (the layout is that of
    /// `plimsoll_wire::page`). Valid as long as the principal.
    pub fn page(&self) -> *const u8 {
        self.shared.window.base()
    }

    /// A call that is kept for the join when there is nobody to make it to.
    fn kept(
        &self,
        id: Option<Id>,
        call: impl FnOnce(&mut crate::Connection, Id) -> Result<()>,
    ) -> Result<()> {
        let Some(id) = id else { return Ok(()) };
        match self.shared.with_control(|connection| call(connection, id)) {
            Err(error) if error.is_absent() => Ok(()),
            result => result,
        }
    }

    fn start(shared: Arc<Shared>, watcher: watcher::Watcher) -> Result<Principal> {
        let thread = thread::spawn("plimsoll", move || watcher.run())?;
        Ok(Principal {
            shared,
            watcher: Some(thread),
            home: std::process::id(),
        })
    }
}

impl Drop for Principal {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and the registration is the parent's.
        if self.home != std::process::id() {
            return std::mem::forget(self.watcher.take());
        }
        self.shared.close();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}
