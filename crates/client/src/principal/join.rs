//! Joins a broker: registers (or finds the principal again) and subscribes.

use super::shared::Shared;
use crate::{Connection, Error, ErrorName, Result, Socket, Stream, WireError};
use plimsoll_wire::messages::{
    self, Adapter, CgroupPath, Changed, Id, Kind, Register, Registered, Set,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How many processes, from ours upwards, are checked for being a principal's.
const ANCESTORS: usize = 64;

/// How often, and with which pause, to check whether a principal has its process.
const LOOKS: u32 = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The place in the tree of principals.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// At the top.
    Top,
    /// Below the principal with this number.
    Below(Id),
    /// Below a principal that lives in this process. Its number changes at a rejoin.
    With(Arc<Shared>),
}

/// The settings by the user of this crate. Sent to every new broker.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The registration.
    pub(super) register: Register,
    /// Everything that was set later, merged.
    pub(super) set: Set,
    /// The cgroup of its processes, made by its user.
    pub(super) contained: Option<CgroupPath>,
    /// Where the principal belongs.
    pub(super) place: Place,
    /// A principal that another process registered, and its page.
    pub(super) existing: Option<(Id, PathBuf)>,
    /// The principal that the environment names.
    pub(super) named: Option<Id>,
    /// Nobody gave that principal a name, so what the program calls itself prevails.
    pub(super) unnamed: bool,
    /// The sockets to try, in order.
    pub(super) candidates: Vec<Socket>,
    /// Longest wait for an answer.
    pub(super) timeout: Duration,
}

impl Wish {
    /// Whether it is for this process and not a child of another principal.
    fn is_own(&self) -> bool {
        self.register.pid == Some(std::process::id()) && matches!(self.place, Place::Top)
    }

    /// Sets the adapter. Returns whether it changed.
    pub(super) fn steered_by(&mut self, adapter: Option<Adapter>) -> bool {
        let news = self.register.adapter != adapter;
        self.register.adapter = adapter;
        news
    }

    /// Takes over new settings. Absent fields stay.
    pub(super) fn merge(&mut self, new: &Set) {
        let set = &mut self.set;
        set.weight = new.weight.or(set.weight);
        set.priority = new.priority.or(set.priority);
        set.max = new.max.or(set.max);
        set.own_weight = new.own_weight.or(set.own_weight);
        set.own_priority = new.own_priority.or(set.own_priority);
        if let Some(parent) = new.parent {
            self.place = Place::Below(parent);
        }
    }
}

/// The result of a join.
#[derive(Debug)]
pub(super) struct Joined {
    /// The principal's id at this broker.
    pub(super) id: Id,
    /// Path of its page.
    pub(super) page: PathBuf,
    /// The broker's grant; absent if another process registered the principal.
    pub(super) registered: Option<Registered>,
    /// The connection for calls.
    pub(super) control: Connection,
    /// The changes of its numbers.
    pub(super) stream: Stream<Changed>,
    /// The first of these changes: its numbers at the time of the join.
    pub(super) first: Changed,
}

/// The history before a join.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// The principal was joined to a broker before.
    pub(super) joined: bool,
    /// Another process had registered the principal's process, and is expected to do so again.
    pub(super) found: bool,
}

/// Joins the first broker that answers.
///
/// # Errors
/// No broker answers, or the one that answers refuses.
pub(super) fn join(wish: &Wish, before: Before) -> Result<Joined> {
    let mut control = Connection::first(&wish.candidates, wish.timeout)?;
    let (id, page, registered) = match &wish.existing {
        Some((id, page)) if !before.joined => (*id, page.clone(), None),
        Some(_) => find(&mut control, wish, ANCESTORS)?,
        None if before.found => find(&mut control, wish, 1)?,
        None => register_or_find(&mut control, wish)?,
    };
    if registered.is_none() {
        steer(&mut control, wish, id)?;
    }
    let other = Connection::open(control.socket(), wish.timeout)?;
    let mut stream = other.subscribe(id)?;
    let path = || control.socket().path().to_owned();
    let first = match stream.next(wish.timeout) {
        Ok(Some(first)) => first,
        Ok(None) => {
            return Err(Error::Timeout {
                path: path(),
                after: wish.timeout,
            });
        }
        // The principal was registered a moment ago and is gone, so the broker has ended the
        // connection.
        Err(Error::Refused(error))
            if registered.is_some() && error.name == ErrorName::NoSuchPrincipal =>
        {
            return Err(Error::Closed { path: path() });
        }
        Err(error) => return Err(error),
    };
    Ok(Joined {
        id,
        page,
        registered,
        control,
        stream,
        first,
    })
}

/// A principal, its page, and what the broker granted if we registered it.
type Found = (Id, PathBuf, Option<Registered>);

/// Registers. If the process is a principal already (by `plimsoll run`, `plimsoll adopt` or another
/// part of the program), uses that one.
fn register_or_find(control: &mut Connection, wish: &Wish) -> Result<Found> {
    if let Some(named) = wish.named.filter(|_| wish.is_own()) {
        await_process(control, named)?;
    }
    match register(control, wish) {
        Ok(registered) => {
            let page = PathBuf::from(&registered.page);
            Ok((registered.id, page, Some(registered)))
        }
        Err(Error::Refused(error))
            if error.name == ErrorName::AlreadyRegistered && wish.is_own() =>
        {
            find(control, wish, 1)
        }
        Err(error) => Err(error),
    }
}

/// Waits until the principal has its process. `plimsoll run` tells the broker the process only
/// after the start, and a program that registered before that would become a second principal.
fn await_process(control: &mut Connection, id: Id) -> Result<()> {
    for _ in 0..LOOKS {
        let listing = control.list()?;
        let named = find_in(&listing.principals, &|principal| principal.id == id);
        if named.is_none_or(|named| named.kind == Kind::Group || named.pid.is_some()) {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Tells which adapter steers a principal that another process registered, and what it is called if nobody
/// gave it a name, if its process is this one. A child that merely inherited the environment must not do so.
fn steer(control: &mut Connection, wish: &Wish, id: Id) -> Result<()> {
    let adapter = wish.register.adapter.as_ref();
    let calls_itself = wish.unnamed && wish.existing.is_none();
    if !wish.is_own() || (adapter.is_none() && !calls_itself) {
        return Ok(());
    }
    let listing = control.list()?;
    let own = with_pid(&listing.principals, std::process::id());
    let Some(own) = own.filter(|own| own.id == id) else {
        return Ok(());
    };
    let name = &wish.register.name;
    if calls_itself && own.name != **name {
        let adapter = match adapter {
            Some(adapter) => Some(adapter.clone()),
            None => own.adapter.as_deref().map(Adapter::new).transpose()?,
        };
        // A broker that is older knows no names here.
        if control.call_itself(id, adapter, name.clone()).is_ok() {
            return Ok(());
        }
    }
    match adapter {
        Some(adapter) if own.adapter.as_deref() != Some(&**adapter) => {
            control.adapt(id, Some(adapter.clone()))
        }
        _ => Ok(()),
    }
}

fn register(control: &mut Connection, wish: &Wish) -> Result<Registered> {
    let mut register = wish.register.clone();
    register.parent = match &wish.place {
        Place::Top => None,
        Place::Below(id) => Some(*id),
        Place::With(parent) => Some(parent.id().ok_or(Error::Alone {
            what: "a child of a principal",
        })?),
    };
    register.weight = wish.set.weight.or(register.weight);
    register.priority = wish.set.priority.or(register.priority);
    register.max = wish.set.max.unwrap_or(register.max);
    let registered = control.register(&register)?;
    let own = Set {
        id: registered.id,
        own_weight: wish.set.own_weight,
        own_priority: wish.set.own_priority,
        ..Set::default()
    };
    if own.own_weight.is_some() || own.own_priority.is_some() {
        control.set(&own)?;
    }
    if let Some(cgroup) = wish.contained.clone().filter(|_| register.pid.is_some()) {
        // An older broker knows no such call, and goes on without the cgroup.
        match control.contain(registered.id, cgroup) {
            Err(Error::Refused(_)) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(registered)
}

/// Finds the principal of our process or of an ancestor, up to this many `generations` away. After a broker's
/// restart the principal's number in the environment is no longer valid.
fn find(control: &mut Connection, wish: &Wish, generations: usize) -> Result<Found> {
    let listing = control.list()?;
    let mut pid = wish.register.pid.unwrap_or_else(std::process::id);
    for _ in 0..generations {
        if let Some(found) = with_pid(&listing.principals, pid) {
            let page = found.page.as_ref().map(PathBuf::from);
            let page = page.unwrap_or_else(|| control.socket().page_of(found.id));
            return Ok((found.id, page, None));
        }
        match parent_of(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => break,
        }
    }
    Err(Error::Refused(WireError::new(
        ErrorName::NoSuchPrincipal,
        "no principal holds this process yet; `plimsoll ps` lists them",
    )))
}

fn with_pid(principals: &[messages::Principal], pid: u32) -> Option<&messages::Principal> {
    find_in(principals, &|principal| principal.pid == Some(pid))
}

/// Recursion is safe: the parser bounds the depth of the tree.
fn find_in<'a>(
    principals: &'a [messages::Principal],
    is_it: &impl Fn(&messages::Principal) -> bool,
) -> Option<&'a messages::Principal> {
    principals.iter().find_map(|principal| {
        let here = is_it(principal).then_some(principal);
        here.or_else(|| find_in(&principal.children, is_it))
    })
}

fn parent_of(pid: u32) -> Option<u32> {
    let process = plimsoll_kernel::process::Process::open(i32::try_from(pid).ok()?).ok()?;
    u32::try_from(process.stat().ok()?.parent).ok()
}
