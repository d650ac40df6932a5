//! A principal: registered with a broker, or on its own.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `builder` | builds and registers a principal |
//! | `join` | joins a broker: registers and subscribes |
//! | `watcher` | the thread that keeps a principal's numbers current |
//! | `outbox` | messages that wait to be sent |
//! | `pending_releases` | what was given back and does not show yet |
//! | `shared` | what the user's threads and the watcher share |

mod builder;
mod join;
mod outbox;
mod pending_releases;
mod shared;
mod watcher;

pub use builder::Builder;

use crate::{Error, Event, Reading, Result, Socket, thread};
use plimsoll_unit::Bytes;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Adapter, CgroupPath, Id, Registered, Report, Set};
use shared::Shared;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A principal and its one thread. Dropping it ends the registration. It is `Send` and `Sync`: any
/// thread may read, wait and report.
///
/// After a `fork` without `exec` the child may read, but it has no watcher. Its numbers follow the
/// broker's page but do not notice the broker's death.
#[derive(Debug)]
pub struct Principal {
    /// The state that this and the watcher share.
    shared: Arc<Shared>,
    /// The watcher's thread, until it is joined.
    watcher: Option<JoinHandle<()>>,
    /// The process that started the watcher.
    home: u32,
}

impl Principal {
    /// Begins a registration under this name: 1 to 64 bytes of printable text.
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// The present numbers. Takes a few loads, no lock, no system call. Never fails and never
    /// blocks. [`Reading::source`] tells where they come from. Memory that [`Principal::released`]
    /// told of counts as given back at once; until the broker has seen that, reading takes a lock.
    #[inline]
    pub fn read(&self) -> Reading {
        self.shared.read()
    }

    /// The memory that it may use now, by one load. Otherwise as [`Principal::read`].
    #[inline]
    pub fn limit(&self) -> Bytes {
        self.shared.limit()
    }

    /// Waits for the next event, for `timeout` at most. A principal has one stream of events; if
    /// several threads wait, each event goes to one of them.
    pub fn wait(&self, timeout: Duration) -> Event {
        self.shared.wait(timeout)
    }

    /// Makes one [`Principal::wait`] return [`Event::Timeout`]: one that is waiting now in another
    /// thread, else the next one.
    pub fn interrupt(&self) {
        self.shared.interrupt();
    }

    /// A descriptor that is readable while there are events, for programs with a poll loop. When it
    /// is, call [`Principal::wait`] with a timeout of zero until it returns [`Event::Timeout`].
    ///
    /// # Errors
    /// [`Error::Resource`] when the kernel gives none.
    pub fn notify_fd(&self) -> Result<BorrowedFd<'_>> {
        self.shared.notify_fd()
    }

    /// Reports what is known about the program. Absent fields keep their last value; `id` is filled
    /// in. Does not wait: the watcher sends the report, and sends it again after a rejoin.
    pub fn report(&self, report: &Report) {
        self.shared.report(report);
    }

    /// Reports that the program has given back this much memory. Does not wait. Call it after the memory
    /// was freed, with the amount that really was: from then on they are not owed any more. If the
    /// broker finds the memory still in use, it is owed again.
    pub fn released(&self, bytes: Bytes) {
        self.shared.released(bytes);
    }

    /// Assigns the process, by its number in the broker's pid namespace. While alone this is kept
    /// for the join.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn attach(&self, pid: u32) -> Result<()> {
        checks::pid(pid)?;
        let (id, whole) = self.shared.wish_pid(pid);
        self.kept(id, |connection, id| connection.attach_as(id, pid, whole))
    }

    /// Names the cgroup that its user made for its processes and no others. Its process is there already. The
    /// broker can then bound the program and take memory from it. While alone this is kept for the join.
    ///
    /// # Errors
    /// The broker's refusal; an older broker knows no such call. `BadCgroup` before it is asked.
    pub fn contain(&self, cgroup: &Path) -> Result<()> {
        let cgroup = CgroupPath::new(cgroup.to_string_lossy())?;
        let id = self.shared.wish_cgroup(cgroup.clone());
        self.kept(id, |connection, id| connection.contain(id, cgroup))
    }

    /// Tells which adapter steers it from now on; `None` if none does. While alone this is kept for
    /// the join. Calls the broker only if this is a change.
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

    /// Changes its settings. Absent fields stay; `id` is filled in. While alone this is kept for
    /// the join.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn set(&self, set: &Set) -> Result<()> {
        let id = self.shared.id();
        self.kept(id, |connection, id| connection.set(&Set { id, ..*set }))?;
        self.shared.wish_set(set);
        Ok(())
    }

    /// Begins the registration of a child. It shares what this principal gets, and rejoins with it
    /// when a broker comes back.
    pub fn child(&self, name: &str) -> Builder {
        Builder::new(name).below(Arc::clone(&self.shared))
    }

    /// Its number at the broker that it is joined to. Changes at a rejoin.
    pub fn id(&self) -> Option<Id> {
        self.shared.id()
    }

    /// The broker's grant (page, pressure socket, cgroup), while joined by our own registration.
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

    /// The address of the page, to read the numbers without a call (layout: `plimsoll_wire::page`).
    /// Valid as long as the principal. Memory that was given back after `sensed` is not in them.
    pub fn page(&self) -> *const u8 {
        self.shared.window.base()
    }

    /// Makes a call, or keeps it for the join if there is no broker.
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
        // A forked child has no watcher, and the registration belongs to the parent.
        if self.home != std::process::id() {
            return std::mem::forget(self.watcher.take());
        }
        self.shared.close();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        self.shared.hang_up();
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}
