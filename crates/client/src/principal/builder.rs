//! Builds and registers a principal.

use super::Principal;
use super::join::{Place, Wish};
use super::shared::Shared;
use super::watcher::Watcher;
use crate::socket::Surroundings;
use crate::{Result, Socket};
use plimsoll_kernel::environment::variable;
use plimsoll_unit::Bytes;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{
    Adapter, CgroupPath, Id, Kind, Max, Name, Priority, Register, Weight,
};
use plimsoll_wire::varlink::WireError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `plimsoll run` sets these variables to the principal and the page of the program that it starts.
const ENV_ID: &str = "PLIMSOLL_ID";
/// Is set if nobody gave that principal a name.
const ENV_UNNAMED: &str = "PLIMSOLL_UNNAMED";
const ENV_PAGE: &str = "PLIMSOLL_PAGE";
/// How long each step of a join may take.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A registration in preparation. The process is the caller's own unless set otherwise.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The settings so far.
    wish: Wish,
    /// The sockets to try: the usual places if absent, no broker at all if empty.
    candidates: Option<Vec<Socket>>,
    /// Whether the page gets the guard against SIGBUS.
    guard: bool,
    /// The first invalid parameter. [`Builder::open`] returns it.
    wrong: Option<WireError>,
}

impl Builder {
    pub(super) fn new(name: &str) -> Builder {
        let (name, wrong) = match Name::new(name) {
            Ok(name) => (name, None),
            Err(error) => (Name::default(), Some(error)),
        };
        let register = Register {
            name,
            pid: Some(std::process::id()),
            ..Register::default()
        };
        Builder {
            wrong,
            wish: Wish {
                register,
                set: Default::default(),
                contained: None,
                place: Place::Top,
                existing: None,
                named: named_by_environment(),
                unnamed: variable(ENV_UNNAMED).is_some(),
                candidates: Vec::new(),
                timeout: JOIN_TIMEOUT,
            },
            candidates: None,
            guard: true,
        }
    }

    /// The weight, 1 to 10000; 100 by default.
    pub fn weight(mut self, weight: u32) -> Builder {
        self.wish.register.weight = self.taken(Weight::new(weight));
        self
    }

    /// The priority, -100 to 100; 0 by default. A higher class is served first.
    pub fn priority(mut self, priority: i32) -> Builder {
        self.wish.register.priority = self.taken(Priority::new(priority));
        self
    }

    /// The maximum for the principal and its children together; 0: no bound.
    pub fn max(mut self, bytes: Bytes) -> Builder {
        self.wish.register.max = self.taken(Max::or_none(bytes)).unwrap_or_default();
        self
    }

    /// A process other than the caller's, by its number in the broker's pid namespace.
    pub fn pid(mut self, pid: u32) -> Builder {
        self.wish.register.pid = Some(pid);
        self
    }

    /// The process will come later by [`Principal::attach`]. Until then the broker grants nothing.
    pub fn without_process(mut self) -> Builder {
        self.wish.register.pid = None;
        self
    }

    /// The process may be the first of a container, or have more than 100 descendants, although this
    /// process started neither.
    pub fn whole(mut self) -> Builder {
        self.wish.register.whole = Some(true);
        self
    }

    /// Makes it a group, which has no process and is only a parent of others.
    pub fn group(mut self) -> Builder {
        self.wish.register.kind = Kind::Group;
        self.wish.register.pid = None;
        self
    }

    /// For a group: the cgroup whose limit bounds it, as a path below the memory controller's
    /// mount.
    pub fn cgroup(mut self, path: &str) -> Builder {
        self.wish.register.cgroup = self.taken(CgroupPath::new(path));
        self
    }

    /// The adapter that steers the program (`hotspot`, `libgc`, `self`). By default it is passive
    /// and never asked to give memory back.
    pub fn adapter(mut self, adapter: &str) -> Builder {
        self.wish.register.adapter = self.taken(Adapter::new(adapter));
        self
    }

    fn taken<T>(&mut self, said: std::result::Result<T, WireError>) -> Option<T> {
        match said {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong.get_or_insert(error);
                None
            }
        }
    }

    /// Makes it a child of this principal. For a parent in this process use [`Principal::child`].
    pub fn parent(mut self, id: Id) -> Builder {
        self.wish.place = Place::Below(id);
        self
    }

    /// The only broker to use. By default the first of [`Socket::candidates`] that answers.
    pub fn socket(mut self, socket: Socket) -> Builder {
        self.candidates = Some(vec![socket]);
        self
    }

    /// Uses no broker, only local sensing.
    pub fn alone(mut self) -> Builder {
        self.candidates = Some(Vec::new());
        self
    }

    /// Whether a SIGBUS handler protects against a truncated page; true by default.
    pub fn guard(mut self, guard: bool) -> Builder {
        self.guard = guard;
        self
    }

    /// How long each step of a join may take; 1 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.wish.timeout = timeout;
        self
    }

    /// Uses the principal that the environment names (`PLIMSOLL_ID`, `PLIMSOLL_PAGE`), even if its
    /// process is another. For code inside a program that `plimsoll run` started, such as a
    /// preloaded adapter. Without such an environment, or in a process with more rights than the
    /// user who started it, nothing changes. A program itself does not need this: [`Builder::open`]
    /// finds the principal of its process.
    pub fn from_environment(mut self) -> Builder {
        let page = variable(ENV_PAGE).map(PathBuf::from);
        if let (Some(id), Some(page)) = (self.wish.named, page) {
            self.wish.existing = Some((id, page));
        }
        self
    }

    /// Uses a principal that another process registered: reads, waits and reports for it.
    pub fn existing(mut self, id: Id, page: impl Into<PathBuf>) -> Builder {
        self.wish.existing = Some((id, page.into()));
        self
    }

    pub(super) fn below(mut self, parent: Arc<Shared>) -> Builder {
        self.candidates = Some(parent.candidates());
        self.wish.place = Place::With(parent);
        self
    }

    /// Registers. If the process is a principal already, for example because `plimsoll run` started
    /// it, that principal is used, with its own weight, priority and maximum, and with its own name if a
    /// person gave it one. Succeeds without a broker too, or if another user has taken its place; the
    /// principal is then alone until one runs. Takes at most a few timeouts if a broker hangs.
    ///
    /// # Errors
    /// An invalid parameter, the broker's refusal, or no thread to be had.
    pub fn open(mut self) -> Result<Principal> {
        self.check()?;
        let usual = || Socket::candidates(&Surroundings::of_self());
        self.wish.candidates = self.candidates.take().unwrap_or_else(usual);
        let shared = Arc::new(Shared::new(self.wish)?);
        let watcher = Watcher::begin(Arc::clone(&shared), self.guard)?;
        Principal::start(shared, watcher)
    }

    fn check(&self) -> Result<()> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone().into());
        }
        self.wish.register.pid.map_or(Ok(()), checks::pid)?;
        Ok(())
    }
}

fn named_by_environment() -> Option<Id> {
    variable(ENV_ID)?.to_str()?.parse().ok()
}
