//! The table of methods, and the short methods.

use super::Daemon;
use super::caller::Caller;
use crate::decide::Refusal;
use crate::server::connection::Occupation;
use crate::server::reply::{Answer, again, failed, once, refused};
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Changed, Id, Nothing, Released, Report, Set, Watch, Which};
use plimsoll_wire::varlink::{Call, ErrorName, Method, WireError, service};

type Function = fn(&mut Daemon, &Caller, &Call<'_>) -> Answer;

/// How many replies a method sends.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    /// One reply.
    Once(Function),
    /// Several replies: it needs `more` and occupies its connection.
    Again(Function),
}

/// The handler of a method; this table holds everything that is served.
pub(super) fn find(name: &str) -> Option<Handler> {
    let method = Method::ALL
        .into_iter()
        .find(|method| method.as_str() == name);
    Some(match method {
        Some(Method::Register) => Handler::Once(Daemon::register),
        Some(Method::Attach) => Handler::Once(Daemon::attach),
        Some(Method::Contain) => Handler::Once(Daemon::contain),
        Some(Method::Adapt) => Handler::Once(Daemon::adapt),
        Some(Method::Report) => Handler::Once(report),
        Some(Method::Subscribe) => Handler::Again(subscribe),
        Some(Method::Released) => Handler::Once(released),
        Some(Method::Set) => Handler::Once(set),
        Some(Method::List) => Handler::Once(list),
        Some(Method::Watch) => Handler::Again(watch),
        Some(Method::Reload) => Handler::Once(reload),
        None if name == service::GET_INFO => Handler::Once(get_info),
        None if name == service::GET_INTERFACE_DESCRIPTION => Handler::Once(describe),
        None => return None,
    })
}

impl Daemon {
    /// The current id of a principal, if the caller may act on it: its owner, the owner of an
    /// ancestor, root, or the broker's user.
    pub(super) fn permitted(&self, caller: &Caller, id: Id) -> Result<Id, WireError> {
        let id = self.state.resolve(id);
        let Some(member) = self.members.get(id) else {
            return Err(refused(Refusal::NoSuchPrincipal(id)));
        };
        let uid = caller.peer.uid;
        if self.settings.is_ruler(uid) || self.line(id).any(|one| self.owns(caller, one)) {
            return Ok(id);
        }
        let message = format!(
            "{} belongs to user {}; only that user, the broker's user or root may do this",
            self.called(member, uid),
            member.owner.uid
        );
        Err(WireError::new(ErrorName::NotPermitted, message))
    }

    /// The current id of a principal, if the caller may place its own principals below it: it must
    /// belong to the caller's user.
    pub(super) fn permitted_parent(&self, caller: &Caller, id: Id) -> Result<Id, WireError> {
        let id = self.permitted(caller, id)?;
        let own = self
            .members
            .get(id)
            .is_some_and(|parent| self.owns(caller, parent));
        if own || self.settings.is_ruler(caller.peer.uid) {
            return Ok(id);
        }
        let message = format!(
            "only what its own user registered may be the parent of a principal; {id} is another's"
        );
        Err(WireError::new(ErrorName::NotPermitted, message))
    }
}

fn report(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let mut report: Report = call.parameters()?;
    report.id = daemon.permitted(caller, report.id)?;
    daemon.core.report(&report).map_err(refused)?;
    once(&Nothing {})
}

fn released(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let released: Released = call.parameters()?;
    let id = daemon.permitted(caller, released.id)?;
    daemon.look_into(id);
    if let Some(member) = daemon.members.get_mut(id) {
        member.memory.released(clock::now());
    }
    daemon.tick_soon_for(caller.peer.uid, caller.now);
    once(&Nothing {})
}

fn set(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let mut set: Set = call.parameters()?;
    set.id = daemon.permitted(caller, set.id)?;
    let before = daemon.core.figures(set.id);
    if let Some(parent) = set.parent {
        if before.is_some_and(|group| group.tenant) {
            let message =
                "the group of a user stays at the top; set its weight or priority instead";
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        set.parent = Some(daemon.permitted_parent(caller, parent)?);
    }
    daemon.core.set(&set).map_err(refused)?;
    if set.parent.is_some() {
        daemon.drop_empty_automatic(before.and_then(|before| before.parent));
    }
    daemon.weigh_automatic();
    daemon.state.touch();
    daemon.tick_soon_for(caller.peer.uid, caller.now);
    once(&Nothing {})
}

fn subscribe(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let which: Which = call.parameters()?;
    let id = daemon.permitted(caller, which.id)?;
    let numbers = daemon.core.numbers(id).unwrap_or_default();
    if let Some(member) = daemon.members.get_mut(id) {
        member.outlet.subscribers.push(caller.slot);
    }
    if let Some(connection) = daemon.serving.connection(caller.slot) {
        connection.occupation = Occupation::Subscribed { id, stale: false };
    }
    let generation = daemon
        .members
        .get(id)
        .map_or(0, |member| member.outlet.page.generation());
    again(&Changed {
        id,
        generation,
        numbers,
    })
}

fn list(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let Nothing {} = call.parameters()?;
    once(&daemon.listing(caller.peer.uid))
}

fn watch(daemon: &mut Daemon, caller: &Caller, call: &Call<'_>) -> Answer {
    let watch: Watch = call.parameters()?;
    let interval = Nanos::millis(watch.interval_ms);
    let reply = again(&daemon.listing(caller.peer.uid))?;
    if let Some(connection) = daemon.serving.connection(caller.slot) {
        connection.occupation = Occupation::Watching {
            interval,
            due: caller.now + interval,
        };
    }
    Ok(reply)
}

fn reload(daemon: &mut Daemon, caller: &Caller, _call: &Call<'_>) -> Answer {
    if !daemon.settings.is_ruler(caller.peer.uid) {
        let message = "only root or the broker's user may reload its configuration";
        return Err(WireError::new(ErrorName::NotPermitted, message));
    }
    daemon.reload().map_err(|error| failed(&error))?;
    once(&Nothing {})
}

fn get_info(_daemon: &mut Daemon, _caller: &Caller, _call: &Call<'_>) -> Answer {
    once(&service::info(env!("CARGO_PKG_VERSION")))
}

fn describe(_daemon: &mut Daemon, _caller: &Caller, call: &Call<'_>) -> Answer {
    once(&service::describe(&call.parameters()?)?)
}
