//! Registers a principal.

use super::Daemon;
use super::caller::Caller;
use crate::balance::Reclaim;
use crate::config::Given;
use crate::decide::{Kept, NewPrincipal, Refusal};
use crate::principals::{Member, Memory, Owner};
use crate::sense::{self, RootDomain};
use crate::server::reply::{Answer, failed, once, refused};
use crate::state::Identity;
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::process::Process;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Kind, Register, Registered, Set};
use plimsoll_wire::varlink::{Call, ErrorName, WireError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// With more principals than this, a new one gets its numbers only at the next regular tick.
const TICK_AT_ONCE: usize = 256;

/// A new principal that has no id yet. The fields become those of [`Member`] with the same names.
pub(super) struct Draft {
    /// The principal as the core knows it.
    pub(super) new: NewPrincipal,
    pub(super) owner: Owner,
    pub(super) unit: String,
    pub(super) adapter: Option<String>,
    /// The process, which becomes the root of the member's processes.
    pub(super) process: Option<Process>,
    pub(super) domain: Option<RootDomain>,
    pub(super) awaits: Option<Id>,
    /// Settings from before a crash of the broker.
    pub(super) kept: Option<Kept>,
}

impl Draft {
    /// A principal without a process and without anything known about it.
    pub(super) fn new(owner: Owner, new: NewPrincipal) -> Draft {
        Draft {
            new,
            owner,
            unit: String::new(),
            adapter: None,
            process: None,
            domain: None,
            awaits: None,
            kept: None,
        }
    }
}

impl Daemon {
    pub(super) fn register(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Register = call.parameters()?;
        self.check_register(caller, &asked)?;
        let process = asked.pid.map(|pid| self.claim(caller, pid)).transpose()?;
        let domain = asked.cgroup.as_deref();
        let domain = domain
            .map(|path| self.open_cgroup(caller, path))
            .transpose()?;
        let keeper = keeper(caller, asked.kind);
        let identity = Identity {
            uid: caller.peer.uid,
            name: asked.name.to_string(),
            process: process.as_ref().map(instance).or(keeper),
            group: asked.kind == Kind::Group,
        };
        // One that was here before the broker was restarted may have grown since then.
        if let Some(process) = process.as_ref().filter(|_| !self.state.knows(&identity)) {
            Daemon::check_extent(caller, process, asked.whole)?;
        }
        let facts = process.as_ref().map(sense::facts_of).unwrap_or_default();
        let given = match process {
            Some(_) => self.settings.config.given(&facts),
            None => Given::default(),
        };
        let (parent, awaits) = self.find_parent(caller, &asked, process.as_ref())?;
        let payer = self.counts_with(caller, process.as_ref());
        let kept = self.state.rejoin(&identity);
        let adapter = given
            .adapter
            .or(asked.adapter.map(String::from))
            .filter(|adapter| adapter != "none");
        let new = NewPrincipal {
            name: asked.name.into(),
            kind: asked.kind,
            parent,
            weight: given.weight.or(asked.weight).unwrap_or_default(),
            priority: given.priority.or(asked.priority).unwrap_or_default(),
            max: asked.max,
            adaptive: adapter.is_some(),
            tenant: false,
            automatic: false,
        };
        let owner = Owner {
            uid: caller.peer.uid,
            payer,
            tenant: None,
            slot: Some(caller.slot),
            registrar: caller.peer.pid,
            keeper,
        };
        let draft = Draft {
            unit: facts.system_unit,
            adapter,
            process,
            domain,
            awaits,
            kept,
            ..Draft::new(owner, new)
        };
        let admitted = self.admit(draft, caller.now);
        let id = admitted.inspect_err(|_| self.drop_empty_automatic(parent))?;
        self.stand_in_unit(id);
        if let Some(connection) = self.serving.connection(caller.slot) {
            connection.principal = Some(id);
        }
        if self.members.len() <= TICK_AT_ONCE {
            self.tick_for_newcomer(caller.peer.uid, caller.now);
        }
        self.registered(id)
    }

    /// Checks that need nothing from outside the request.
    fn check_register(&mut self, caller: &Caller, asked: &Register) -> Result<(), WireError> {
        let living = self
            .serving
            .connection(caller.slot)
            .and_then(|connection| connection.principal);
        if let Some(id) = living.filter(|&id| self.members.get(id).is_some()) {
            let message = format!(
                "this connection is the life of principal {id} already; open another for the next"
            );
            return Err(WireError::new(ErrorName::AlreadyRegistered, message));
        }
        if self.members.owned_by(caller.peer.uid) >= self.settings.config.max_per_user {
            let message = format!(
                "user {} already has {} principals; end some, or raise max_per_user in plimsoll.toml",
                caller.peer.uid, self.settings.config.max_per_user
            );
            return Err(WireError::new(ErrorName::TooMany, message));
        }
        self.check_room(caller.peer.uid)?;
        match (asked.kind, asked.pid, &asked.cgroup) {
            (Kind::Group, Some(_), _) => Err(WireError::about(
                "pid",
                "a group has no process; leave pid out",
            )),
            (Kind::Process, _, Some(_)) => {
                let message =
                    "only a group may carry a cgroup; register a group, and the process under it";
                Err(WireError::new(ErrorName::BadCgroup, message))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a user leaves as much room as it has principals. So a new user finds room,
    /// however many users hold all that they may.
    fn check_room(&self, uid: u32) -> Result<(), WireError> {
        let most = self.settings.config.max_principals;
        let (own, all) = (self.members.owned_by(uid), self.core.counted());
        if self.settings.is_ruler(uid) || own == 0 || own < most.saturating_sub(all) {
            return Ok(());
        }
        let message = format!(
            "user {uid} has {own} of {all} principals, and what is left of {most} is for other users; end \
             some, or raise max_principals in plimsoll.toml"
        );
        Err(WireError::new(ErrorName::TooMany, message))
    }

    /// Finds the parent. In this order: the named principal, the principal that the process
    /// descends from, an automatic group if a cgroup binds the process tighter than the domain, the
    /// group of its user. The second value is the old id of a named parent that has not rejoined
    /// yet.
    fn find_parent(
        &mut self,
        caller: &Caller,
        asked: &Register,
        process: Option<&Process>,
    ) -> Result<(Option<Id>, Option<Id>), WireError> {
        match asked.parent {
            Some(old) if self.members.get(self.state.resolve(old)).is_none() => {
                let owner = self.state.awaits(old);
                let owner = owner.ok_or_else(|| refused(Refusal::NoSuchPrincipal(old)))?;
                let own = owner == caller.peer.uid && self.is_told_apart(owner);
                if !own && !self.settings.is_ruler(caller.peer.uid) {
                    let message = format!(
                        "principal {old} belongs to user {owner}; only that user, the broker's user or \
                         root may put another under it"
                    );
                    return Err(WireError::new(ErrorName::NotPermitted, message));
                }
                let top = self.group_of_user(caller.peer.uid, caller.now)?;
                return Ok((top, Some(old)));
            }
            Some(parent) => return Ok((Some(self.permitted_parent(caller, parent)?), None)),
            None => {}
        }
        let found = process.and_then(|process| self.parent_of(process, caller));
        match found {
            Some(found) => Ok((Some(found), None)),
            None => {
                let user = self.counts_with(caller, process);
                Ok((self.group_of_user(user, caller.now)?, None))
            }
        }
    }

    /// The principal that a process descends from, otherwise the automatic group for its cgroup.
    pub(super) fn parent_of(&mut self, process: &Process, caller: &Caller) -> Option<Id> {
        let user = self.counts_with(caller, Some(process));
        let above = self.above(process, caller, user);
        above.or_else(|| self.automatic_for(process, user, caller.now))
    }

    /// Gives a principal its id, page, sockets and cgroup: all of them or none.
    pub(super) fn admit(&mut self, draft: Draft, now: Nanos) -> Result<Id, WireError> {
        let Draft {
            new,
            owner,
            unit,
            adapter,
            process,
            domain,
            awaits,
            kept,
        } = draft;
        let uid = owner.uid;
        let descriptors = self.descriptors_of(uid, new.kind, domain.as_ref(), now)?;
        let id = self.core.register(&new, now).map_err(refused)?;
        let outlet = self.serving.open_files(id, &self.settings);
        let outlet = outlet.map_err(|error| {
            let _ = self.core.remove(id);
            tracing::warn!(%error, name = %new.name, "a principal could not be registered");
            failed(&error)
        })?;
        let member = Member {
            id,
            name: new.name,
            kind: new.kind,
            owner,
            descriptors,
            unit,
            adapter,
            memory: Memory::default(),
            domain,
            beside: Bytes::ZERO,
            home: None,
            refused: None,
            awaits,
            outlet,
            reclaim: Reclaim::default(),
        };
        self.members.insert(member);
        match process {
            Some(process) => self.give_process(id, process),
            None => self.prepare_home(id, new.kind),
        }
        self.restore(id, new.parent, kept);
        self.weigh_automatic();
        self.state.touch();
        self.tick_soon_for(uid, now);
        Ok(id)
    }

    /// Restores the settings of a rejoined principal and adopts its children that rejoined earlier.
    fn restore(&mut self, id: Id, parent: Option<Id>, kept: Option<Kept>) {
        let Some(kept) = kept else { return };
        let known = kept.parent.map(|old| self.state.resolve(old));
        let user = self.user_of(id);
        let known =
            known.filter(|&known| self.members.get(known).is_some() && self.user_of(known) == user);
        let parent = if self.is_top(parent) {
            known.or(parent)
        } else {
            parent
        };
        // A parent found by descent is awaited like a named one.
        if self.is_top(parent)
            && let Some(old) = kept.parent
            && self.state.awaits(old).is_some()
            && let Some(member) = self.members.get_mut(id)
        {
            member.awaits = Some(old);
        }
        if let Err(error) = self.core.restore(id, parent, &kept) {
            tracing::warn!(principal = id, %error, "its settings could not be restored");
        }
        self.state.alias(kept.id, id);
        let waiting: Vec<Id> = self
            .members
            .iter()
            .filter(|child| child.awaits == Some(kept.id))
            .map(|child| child.id)
            .collect();
        for child in waiting {
            let _ = self.core.set(&Set {
                id: child,
                parent: Some(id),
                ..Set::default()
            });
            if let Some(member) = self.members.get_mut(child) {
                member.awaits = None;
            }
        }
    }

    /// Opens the cgroup of a group.
    fn open_cgroup(&self, caller: &Caller, path: &str) -> Result<RootDomain, WireError> {
        let cgroup = self.own_cgroup_of(caller, path)?;
        RootDomain::open(Some(cgroup.dir())).map_err(|error| bad_cgroup(path, &error))
    }

    /// A cgroup that the caller owns, because the broker makes cgroups in it, moves processes there, or
    /// bounds it.
    pub(super) fn own_cgroup_of(&self, caller: &Caller, path: &str) -> Result<Cgroup, WireError> {
        let cgroup = Cgroup::named(Path::new(path)).map_err(|error| {
            if error.is_absent() {
                bad_cgroup(
                    path,
                    &"there is no such memory cgroup; give a path below the memory controller's \
                      mount, or register the group without",
                )
            } else {
                bad_cgroup(path, &error)
            }
        })?;
        let status = std::fs::metadata(cgroup.dir()).map_err(|error| bad_cgroup(path, &error))?;
        let uid = caller.peer.uid;
        let own = status.uid() == uid && self.is_told_apart(uid);
        if !own && !self.settings.is_ruler(uid) {
            let message = format!(
                "cgroup {} belongs to user {}; only that user, the broker's user or root may share it out",
                path.escape_debug(),
                status.uid()
            );
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        Ok(cgroup)
    }

    fn registered(&self, id: Id) -> Answer {
        let (Some(member), Some(figures)) = (self.members.get(id), self.core.figures(id)) else {
            return Err(WireError::new(
                ErrorName::NoSuchProcess,
                "the process exited meanwhile",
            ));
        };
        once(&Registered {
            id,
            page: member.outlet.page.path().display().to_string(),
            pressure: member.outlet.pressure.path().display().to_string(),
            cgroup: member
                .home
                .as_ref()
                .map(|home| home.directory().display().to_string()),
            weight: figures.settings.weight.get(),
            priority: figures.settings.priority.get(),
        })
    }
}

/// Why a cgroup is of no use.
pub(super) fn bad_cgroup(path: &str, why: &dyn std::fmt::Display) -> WireError {
    let message = format!("cgroup {}: {why}", path.escape_debug());
    WireError::new(ErrorName::BadCgroup, message)
}

/// The process that keeps a group: the one that registers it. The group lives as long as its
/// connection.
fn keeper(caller: &Caller, kind: Kind) -> Option<(i32, u64)> {
    let group = kind == Kind::Group && caller.peer.pid > 0;
    let process = group.then(|| sense::open(caller.peer.pid).ok())?;
    process.as_ref().map(instance)
}

/// Process id and start time: together unique within this boot.
fn instance(process: &Process) -> (i32, u64) {
    (process.pid(), process.start_time())
}
