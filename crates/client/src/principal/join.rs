//! Joining a broker: register (or find the principal again), subscribe.

use super::shared::Shared;
use crate::{Connection, Error, ErrorName, Result, Socket, Stream, WireError};
use plimsoll_wire::messages::{self, Changed, Id, Register, Registered, Set};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Ancestors that are looked through for a principal's process.
const ANCESTORS: usize = 64;

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
    pub(super) candidates: Vec<Socket>,
    pub(super) timeout: Duration,
}

impl Wish {
    /// Takes over who steers it; whether that is another than before.
    pub(super) fn steered_by(&mut self, adapter: Option<&str>) -> bool {
        let news = self.register.adapter.as_deref() != adapter;
        self.register.adapter = adapter.map(str::to_owned);
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

/// Joins the first broker that answers.
///
/// # Errors
/// Nobody answers, or who answers refuses.
pub(super) fn join(wish: &Wish, again: bool) -> Result<Joined> {
    let mut control = Connection::first(&wish.candidates, wish.timeout)?;
    let (id, page, registered) = match &wish.existing {
        Some((id, page)) if !again => (*id, page.clone(), None),
        Some(_) => {
            let (id, page) = find(&mut control, wish)?;
            let page = page.unwrap_or_else(|| control.socket().page_of(id));
            (id, page, None)
        }
        None => {
            let registered = register(&mut control, wish)?;
            let page = PathBuf::from(&registered.page);
            (registered.id, page, Some(registered))
        }
    };
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
    register.max = wish.set.max.or(register.max).filter(|&max| max > 0);
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

/// After a broker came back, the principal that the environment named has another number: it is the
/// one whose process is ours or above ours. With its page, where the broker tells it.
fn find(control: &mut Connection, wish: &Wish) -> Result<(Id, Option<PathBuf>)> {
    let listing = control.list()?;
    let mut pid = wish.register.pid.unwrap_or_else(std::process::id);
    for _ in 0..ANCESTORS {
        if let Some(found) = with_pid(&listing.principals, pid) {
            return Ok((found.id, found.page.as_ref().map(PathBuf::from)));
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

/// The tree is at most as deep as the parser lets it be.
fn with_pid(principals: &[messages::Principal], pid: u32) -> Option<&messages::Principal> {
    principals.iter().find_map(|principal| {
        let here = (principal.pid == Some(pid)).then_some(principal);
        here.or_else(|| with_pid(&principal.children, pid))
    })
}

fn parent_of(pid: u32) -> Option<u32> {
    let process = plimsoll_kernel::process::Process::open(i32::try_from(pid).ok()?).ok()?;
    u32::try_from(process.stat().ok()?.parent).ok()
}
