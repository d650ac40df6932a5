//! Joining a broker: register (or find the principal again), subscribe.

use super::shared::Shared;
use crate::{Connection, Error, ErrorName, Result, Socket, Stream, WireError};
use plimsoll_wire::messages::{self, Adapter, Changed, Id, Kind, Register, Registered, Set};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Processes from ours upwards that are looked through for a principal's.
const ANCESTORS: usize = 64;

/// How often, and after what pause, it is looked whether a principal has its process.
const LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where in the tree.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Below the root.
    Top,
    /// Below the principal of that number.
    Below(Id),
    /// Below a principal of this process, whatever number it has now.
    With(Arc<Shared>),
}

/// What the user of this crate wants; said to every broker that comes.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) register: Register,
    /// Everything that was set later, merged.
    pub(super) set: Set,
    pub(super) place: Place,
    /// The principal that somebody else registered, and its page.
    pub(super) existing: Option<(Id, PathBuf)>,
    /// The principal that the environment names.
    pub(super) named: Option<Id>,
    pub(super) candidates: Vec<Socket>,
    pub(super) timeout: Duration,
}

impl Wish {
    /// Whether it is for this process, and no child of another principal.
    fn is_own(&self) -> bool {
        self.register.pid == Some(std::process::id()) && matches!(self.place, Place::Top)
    }

    /// Takes over who steers it; whether that is another than before.
    pub(super) fn steered_by(&mut self, adapter: Option<Adapter>) -> bool {
        let news = self.register.adapter != adapter;
        self.register.adapter = adapter;
        news
    }

    /// Takes over what was set; absent fields stay.
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

/// What a join gives.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) id: Id,
    pub(super) page: PathBuf,
    pub(super) registered: Option<Registered>,
    pub(super) control: Connection,
    pub(super) stream: Stream<Changed>,
    pub(super) first: Changed,
}

/// What came before a join.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// It was joined to a broker.
    pub(super) joined: bool,
    /// Somebody else had registered its process, and is waited for to do so again.
    pub(super) found: bool,
}

/// Joins the first broker that answers.
///
/// # Errors
/// Nobody answers, or who answers refuses.
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
        // Registered a moment ago and gone: the broker ended that connection.
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

/// A principal, its page, and what the broker granted when it is registered by us.
type Found = (Id, PathBuf, Option<Registered>);

/// Registers, or uses what the process is already: `plimsoll run`, `plimsoll adopt` or another part
/// of the program came first.
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

/// `plimsoll run` names a program's process to the broker once it has started it. A program that
/// registered before that would be another principal.
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

/// Says who steers a principal that somebody else registered, where its process is this one: a
/// child that inherited the environment has no say in it.
fn steer(control: &mut Connection, wish: &Wish, id: Id) -> Result<()> {
    let Some(adapter) = wish.register.adapter.as_ref().filter(|_| wish.is_own()) else {
        return Ok(());
    };
    let listing = control.list()?;
    match with_pid(&listing.principals, std::process::id()) {
        Some(own) if own.id == id && own.adapter.as_deref() != Some(&**adapter) => {
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
    Ok(registered)
}

/// The principal whose process is ours or above ours, of so many generations: after a broker came
/// back, the one that the environment named has another number.
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

/// The tree is at most as deep as the parser lets it be.
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
