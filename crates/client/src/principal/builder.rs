//! How a principal comes to be.

use super::Principal;
use super::join::{Place, Wish};
use super::shared::Shared;
use super::watcher::Watcher;
use crate::socket::Surroundings;
use crate::{Result, Socket};
use plimsoll_kernel::environment::variable;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{
    Adapter, CgroupPath, Id, Kind, Max, Name, Priority, Register, Weight,
};
use plimsoll_wire::varlink::WireError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The environment in which `plimsoll run` starts a program names its principal and its page.
const ENV_ID: &str = "PLIMSOLL_ID";
const ENV_PAGE: &str = "PLIMSOLL_PAGE";
/// How long each step of a join may take.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A registration to be. The process is the caller's own unless said otherwise.
#[derive(Clone, Debug)]
pub struct Builder {
    wish: Wish,
    /// The usual places when absent, no broker at all when empty.
    candidates: Option<Vec<Socket>>,
    guard: bool,
    /// The first of what was said that cannot be; [`Builder::open`] tells.
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
                place: Place::Top,
                existing: None,
                named: named_by_environment(),
                candidates: Vec::new(),
                timeout: JOIN_TIMEOUT,
            },
            candidates: None,
            guard: true,
        }
    }

    /// 1 to 10000; 100 when not said.
    pub fn weight(mut self, weight: u32) -> Builder {
        self.wish.register.weight = self.taken(Weight::new(weight));
        self
    }

    /// -100 to 100; 0 when not said. A higher class is served first.
    pub fn priority(mut self, priority: i32) -> Builder {
        self.wish.register.priority = self.taken(Priority::new(priority));
        self
    }

    /// Never more than this many bytes, for it and its children together; 0: no bound.
    pub fn max(mut self, bytes: u64) -> Builder {
        self.wish.register.max = self.taken(Max::or_none(bytes)).unwrap_or_default();
        self
    }

    /// Another process than the caller's, in the broker's pid namespace.
    pub fn pid(mut self, pid: u32) -> Builder {
        self.wish.register.pid = Some(pid);
        self
    }

    /// The process is still to come: [`Principal::attach`]. Until then the broker grants nothing.
    pub fn without_process(mut self) -> Builder {
        self.wish.register.pid = None;
        self
    }

    /// A group: only a parent of others.
    pub fn group(mut self) -> Builder {
        self.wish.register.kind = Kind::Group;
        self.wish.register.pid = None;
        self
    }

    /// For a group: the cgroup whose limit bounds it, a path under the memory controller's mount.
    pub fn cgroup(mut self, path: &str) -> Builder {
        self.wish.register.cgroup = self.taken(CgroupPath::new(path));
        self
    }

    /// Who steers the program (`hotspot`, `libgc`, `self`); passive when not said: then it is never
    /// asked for anything.
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

    /// Under that principal. See [`Principal::child`] for one of this process.
    pub fn parent(mut self, id: Id) -> Builder {
        self.wish.place = Place::Below(id);
        self
    }

    /// That broker and no other; otherwise the first of [`Socket::candidates`].
    pub fn socket(mut self, socket: Socket) -> Builder {
        self.candidates = Some(vec![socket]);
        self
    }

    /// No broker at all: local sensing only.
    pub fn alone(mut self) -> Builder {
        self.candidates = Some(Vec::new());
        self
    }

    /// Whether a truncated page is to be survived by a SIGBUS handler; it is when not said.
    pub fn guard(mut self, guard: bool) -> Builder {
        self.guard = guard;
        self
    }

    /// How long each step of a join may take; 1 s when not said.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.wish.timeout = timeout;
        self
    }

    /// For what runs in a process of a program that `plimsoll run` started, but is not the program
    /// itself (a preloaded adapter): uses the principal that the environment names (`PLIMSOLL_ID`,
    /// `PLIMSOLL_PAGE`), whoever's process that is. Without such an environment, or in a process
    /// that has more rights than whoever started it, nothing changes. A program needs this not:
    /// [`Builder::open`] finds the principal that its process is.
    pub fn from_environment(mut self) -> Builder {
        let page = variable(ENV_PAGE).map(PathBuf::from);
        if let (Some(id), Some(page)) = (self.wish.named, page) {
            self.wish.existing = Some((id, page));
        }
        self
    }

    /// Uses a principal that somebody else registered: reads, waits and reports for it.
    pub fn existing(mut self, id: Id, page: impl Into<PathBuf>) -> Builder {
        self.wish.existing = Some((id, page.into()));
        self
    }

    pub(super) fn below(mut self, parent: Arc<Shared>) -> Builder {
        self.candidates = Some(parent.candidates());
        self.wish.place = Place::With(parent);
        self
    }

    /// Registers. A process that is a principal already, because `plimsoll run` started it, say,
    /// becomes no second one: that one is used, with the name, weight, priority and maximum that it
    /// has. Where no broker runs this succeeds too: the principal is alone until one does. Takes at
    /// most a few timeouts when a broker hangs.
    ///
    /// # Errors
    /// A parameter that cannot be, the broker's refusal, a socket that is not to be trusted, or a
    /// kernel without a thread to give.
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
