//! A principal for a program or a group, kept as long as that runs. It survives a broker's death:
//! the client library falls back to local sensing and rejoins.

use super::child::Launch;
use super::move_children::{cgroup_of, gather};
use super::unbind;
use crate::broker_connection::{Control, told};
use crate::error::CliError;
use crate::own_broker::Place;
use crate::rows::find;
use crate::size;
use plimsoll_client::{Error, Principal};
use plimsoll_kernel::capacity::Domain;
use plimsoll_runtimes::client::ClientLink;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::{Id, Order, Priority, Report, Statistics, Weight};
use plimsoll_wire::size::Size;
use plimsoll_wire::varlink::ErrorName;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::{info, warn};

/// The memory pressure protocol (systemd's MEMORY_PRESSURE document). These name the file to watch
/// and the text to write there first; `DO_NOT` in place of a file means not to watch.
const WATCH: &str = "MEMORY_PRESSURE_WATCH";
const WRITE: &str = "MEMORY_PRESSURE_WRITE";
const DO_NOT: &str = "/dev/null";
/// Tells a client in the program that no person chose the principal's name.
const UNNAMED: &str = "PLIMSOLL_UNNAMED";

/// The principal that the broker is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Shown to people.
    pub name: &'a str,
    /// No person chose the name, so the name that the program gives itself prevails.
    pub unnamed: bool,
    /// Its weight relative to its siblings.
    pub weight: Option<Weight>,
    /// Its class among its siblings.
    pub priority: Option<Priority>,
    /// Its maximum.
    pub max: Option<Bytes>,
    /// The adapter that steers it.
    pub adapter: Option<&'static str>,
    /// Its process may be the first of a container, or have very many descendants.
    pub whole: bool,
}

/// A principal of ours. It leaves when this is dropped.
#[derive(Clone, Debug)]
pub struct Member {
    principal: Arc<Principal>,
    place: Place,
    adapter: Option<&'static str>,
    /// The weight that was asked for.
    weight: Option<Weight>,
    unnamed: bool,
}

impl Member {
    /// Makes a principal for a program that is still to start, under `parent` or at the top. If no
    /// broker answers, it is alone until one does.
    ///
    /// # Errors
    /// When the broker refuses it.
    pub fn join(
        place: &Place,
        wanted: Wanted<'_>,
        parent: Option<&Member>,
    ) -> Result<Member, CliError> {
        let mut builder = match parent {
            Some(parent) => parent.principal.child(wanted.name),
            None => Principal::builder(wanted.name).socket(place.socket.clone()),
        };
        builder = builder.without_process();
        if wanted.whole {
            builder = builder.whole();
        }
        if let Some(adapter) = wanted.adapter {
            builder = builder.adapter(adapter);
        }
        Member::open(place, wanted, builder)
    }

    /// Makes a group. Its cgroup, if any, bounds it.
    ///
    /// # Errors
    /// When the broker refuses it.
    pub fn group(
        place: &Place,
        wanted: Wanted<'_>,
        cgroup: Option<&Path>,
    ) -> Result<Member, CliError> {
        let mut builder = Principal::builder(wanted.name)
            .socket(place.socket.clone())
            .group();
        if let Some(cgroup) = cgroup {
            builder = builder.cgroup(&cgroup.to_string_lossy());
        }
        Member::open(place, wanted, builder)
    }

    fn open(
        place: &Place,
        wanted: Wanted<'_>,
        mut builder: plimsoll_client::Builder,
    ) -> Result<Member, CliError> {
        if let Some(weight) = wanted.weight {
            builder = builder.weight(weight.get());
        }
        if let Some(priority) = wanted.priority {
            builder = builder.priority(priority.get());
        }
        if let Some(max) = wanted.max {
            builder = builder.max(max);
        }
        let principal = builder.open().map_err(|error| told(error, &place.socket))?;
        Ok(Member {
            principal: Arc::new(principal),
            place: place.clone(),
            adapter: wanted.adapter,
            weight: wanted.weight,
            unnamed: wanted.unnamed,
        })
    }

    /// Sets the program's environment: the places of the broker and of the program's numbers, and a
    /// socket that speaks the service manager's memory pressure protocol. If the service manager
    /// said "do not watch", that stays. Its text to write belongs to its own file, so it is removed
    /// for our socket.
    pub fn tell(&self, launch: &mut Launch) {
        let mut set = |name: &str, value: OsString| launch.environment.push((name.into(), value));
        set("PLIMSOLL_SOCKET", self.place.socket.path().into());
        let Some(registered) = self.principal.registered() else {
            return;
        };
        set("PLIMSOLL_ID", registered.id.to_string().into());
        set("PLIMSOLL_PAGE", registered.page.into());
        if self.unnamed {
            set(UNNAMED, "1".into());
        } else {
            // That of a `plimsoll run` around this one.
            launch.removed.push(UNNAMED.into());
        }
        if std::env::var_os(WATCH).is_none_or(|said| said != DO_NOT) {
            set(WATCH, registered.pressure.into());
            launch.removed.push(WRITE.into());
        }
    }

    /// The cgroup that the broker made for it.
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.principal.registered()?.cgroup.map(PathBuf::from)
    }

    /// Its number, if a broker knows it.
    pub fn id(&self) -> Option<Id> {
        self.principal.id()
    }

    /// Gives it its process.
    ///
    /// # Errors
    /// When the broker refuses it.
    pub fn attach(&self, pid: u32) -> Result<(), CliError> {
        self.principal
            .attach(pid)
            .map_err(|error| told(error, &self.place.socket))?;
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(told) = self.other_weight()
        {
            info!("{told}");
        }
        Ok(())
    }

    /// The message if the broker gave another weight than was asked for.
    fn other_weight(&self) -> Option<String> {
        let (id, asked) = (self.principal.id()?, self.weight?);
        let listing = Control::connect(&self.place.socket).ok()?.list().ok()?;
        let given = find(&listing, id)?;
        (given.weight != asked.get()).then(|| {
            format!(
                "a rule of the broker's configuration gives `{}` the weight {}, not {}",
                given.name,
                given.weight,
                asked.get()
            )
        })
    }

    /// Assigns a process that has just started in the cgroup `started_in`, with the children that
    /// it has already. After a refusal the program runs on without the broker.
    pub fn attach_started(&self, pid: u32, started_in: Option<PathBuf>) {
        if let Err(error) = self.attach(pid) {
            return warn!("process {pid} is not accounted: {error}");
        }
        gather(pid, started_in);
    }

    /// Tells the broker the cgroup that we made for its process, if that has entered it.
    pub fn contain(&self, pid: u32, dir: &Path) {
        if cgroup_of(pid).as_deref() != Some(dir) {
            return;
        }
        match self.principal.contain(dir) {
            Ok(()) => {
                info!("process {pid} has the cgroup {}", dir.display());
                unbind::watch(&self.principal, dir);
            }
            // The program has ended already, and its principal with it.
            Err(Error::Refused(why)) if why.name == ErrorName::NoSuchPrincipal => {}
            Err(error) => info!("the broker cannot bound process {pid}: {error}"),
        }
    }

    /// The link for an adapter. The adapter ends with its program, with us, or when `stop` is set.
    pub fn link(&self, stop: Arc<AtomicBool>) -> ClientLink {
        ClientLink::new(Arc::clone(&self.principal), stop, self.adapter)
    }

    /// Tells the broker in what order the program's threads run; `None` if the kernel alone decides that.
    pub fn report_order(&self, order: Option<Order>) {
        let collector = Statistics {
            order,
            ..Statistics::default()
        };
        self.principal.report(&Report {
            collector: Some(collector),
            ..Report::default()
        });
    }

    /// Why no broker knows the principal; `None` if one does.
    pub fn alone(&self) -> Option<String> {
        let told = || {
            self.principal
                .last_error()
                .unwrap_or_else(|| "none answers".into())
        };
        self.principal.id().is_none().then(told)
    }
}

/// A principal, or the reason why the program goes on without one: no broker serves.
///
/// # Errors
/// The broker does not give what was asked for.
pub(super) fn unless_asked(
    member: Result<Member, CliError>,
) -> Result<Result<Member, String>, CliError> {
    match member {
        Err(error @ CliError::Asked(_)) => Err(error),
        other => Ok(other.map_err(|error| error.to_string())),
    }
}

/// The amount of a maximum as somebody wrote it.
///
/// # Errors
/// When no broker takes so small a maximum.
pub fn bound(max: Option<Size>) -> Result<Option<Bytes>, CliError> {
    let bytes = max.map(|max| size::bound(max, capacity())).transpose();
    bytes.map_err(CliError::Usage)
}

/// Memory of the machine, or of the tightest limit above us.
pub fn capacity() -> Bytes {
    let read = Domain::of_self().and_then(|mut domain| domain.read());
    read.map_or(Bytes::MAX, |reading| reading.capacity)
}

/// The lowest limit of the cgroups above us; `None` if only the machine's memory bounds us.
pub(super) fn lowest_limit() -> Option<Bytes> {
    let read = Domain::of_self().and_then(|mut domain| domain.lowest_limit());
    read.ok().flatten()
}

/// Whether nothing can be paged out here.
pub(super) fn on_a_cliff() -> bool {
    Domain::of_self()
        .and_then(|mut domain| domain.is_cliff())
        .unwrap_or(false)
}

/// Memory that can still be paged out here.
pub(super) fn pageable() -> Bytes {
    let read = Domain::of_self().and_then(|mut domain| {
        let reading = domain.read()?;
        domain.pageable(&reading)
    });
    read.unwrap_or_default()
}

/// The machine's memory.
pub(super) fn machine() -> Option<Bytes> {
    let read = Domain::machine().and_then(|mut domain| domain.read());
    read.ok().map(|reading| reading.capacity)
}
