//! A principal's process: whose it is, what it descends from, its cgroup, its end.

use super::Daemon;
use super::calls::Caller;
use crate::members::Member;
use crate::sense::{self, Tree};
use crate::server::poll::{Interest, Token};
use crate::server::reply::{Answer, once, process_refused, refused};
use plimsoll_kernel::process::Process;
use plimsoll_wire::messages::{Adapt, Attach, Id, Kind, Nothing, Set};
use plimsoll_wire::varlink::{Call, ErrorName, WireError};
use std::path::{Path, PathBuf};

/// Processes looked at upwards to find the principal that a new one descends from.
const MAX_LINE: usize = 64;

impl Daemon {
    /// Takes hold of a process for its owner, unless it is a principal already.
    pub(super) fn claim(&self, caller: &Caller, pid: u32) -> Result<Process, WireError> {
        let process = sense::open(pid).map_err(|error| process_refused(pid, &error))?;
        let owner = process
            .uid()
            .map_err(|error| process_refused(pid, &error))?;
        if owner != caller.peer.uid && !self.is_ruler(caller.peer.uid) {
            let message = format!(
                "process {pid} belongs to user {owner}; only that user or root may register it"
            );
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        if let Some(other) = self.members.of_pid(process.pid()) {
            let message = format!(
                "process {pid} is principal {} ({}) already; use that one",
                other.id, other.name
            );
            return Err(WireError::new(ErrorName::AlreadyRegistered, message));
        }
        Ok(process)
    }

    /// The principal of the same user that a process descends from.
    pub(super) fn above(&self, process: &Process, uid: u32) -> Option<Id> {
        let mut pid = process.ids().ok()?.parent;
        for _ in 0..MAX_LINE {
            if let Some(member) = self.members.of_pid(pid).filter(|member| member.uid == uid) {
                return Some(member.id);
            }
            if pid <= 1 {
                return None;
            }
            pid = Process::open(pid).ok()?.ids().ok()?.parent;
        }
        None
    }

    pub(super) fn attach(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Attach = call.parameters()?;
        let id = self.permitted(caller, asked.id)?;
        let Some(member) = self.members.get(id) else {
            return Err(refused(crate::core::Refusal::NoSuchPrincipal(id)));
        };
        if member.kind == Kind::Group {
            return Err(WireError::about(
                "id",
                format!("principal {id} is a group; register a process under it"),
            ));
        }
        if let Some(pid) = member.pid() {
            let message = format!("principal {id} has process {pid} already; register another");
            return Err(WireError::new(ErrorName::AlreadyRegistered, message));
        }
        let process = self.claim(caller, asked.pid)?;
        self.place_by_process(id, &process, caller);
        let given = self.config.given(&sense::facts_of(&process));
        self.give_process(id, process);
        self.apply_given(id, given);
        self.state.touch();
        self.tick_soon(caller.now);
        once(&Nothing {})
    }

    /// Puts a principal that was registered without a process, and under nobody, where one of that
    /// process stands.
    fn place_by_process(&mut self, id: Id, process: &Process, caller: &Caller) {
        let named = |member: &Member| member.awaits.is_some();
        let placed = self
            .core
            .figures(id)
            .is_none_or(|figures| figures.parent.is_some());
        if placed || self.members.get(id).is_none_or(named) {
            return;
        }
        let Some(parent) = self.parent_of(process, caller) else {
            return;
        };
        let set = Set {
            id,
            parent: Some(parent),
            ..Set::default()
        };
        if let Err(error) = self.core.set(&set) {
            tracing::debug!(principal = id, parent, %error, "it stays at the top");
            self.drop_empty_automatic(Some(parent));
        }
        self.weigh_automatic();
    }

    /// Who steers it from now on, unless a rule says who does.
    pub(super) fn adapt(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Adapt = call.parameters()?;
        let id = self.permitted(caller, asked.id)?;
        let process = self.members.get(id).and_then(|member| member.tree.as_ref());
        let given = process.map(|tree| self.config.given(&sense::facts_of(tree.root())));
        let adapter = given.and_then(|given| given.adapter);
        let adapter = adapter.or(asked.adapter.map(String::from));
        self.set_adapter(id, adapter);
        self.tick_soon(caller.now);
        once(&Nothing {})
    }

    pub(super) fn set_adapter(&mut self, id: Id, adapter: Option<String>) {
        if let Some(member) = self.members.get_mut(id) {
            member.adapter = adapter.filter(|adapter| adapter != "none");
            let _ = self.core.set_adaptive(id, member.adapter.is_some());
        }
    }

    /// Watches a process for its end, follows it, and gives it a cgroup where that is allowed.
    pub(super) fn give_process(&mut self, id: Id, process: Process) {
        if let Some(pidfd) = process.pidfd()
            && let Err(error) = self.poll.add(pidfd, Token::Process(id), Interest::Read)
        {
            tracing::warn!(principal = id, %error, "its end cannot be watched");
        }
        if self.config.cgroups {
            self.find_home(id, &process);
        }
        let account = self.account_of(id);
        self.members.attach(id, Tree::new(process, account));
        self.release_unneeded(id);
        // Whoever counted it as a descendant looks again.
        for tree in self
            .members
            .iter_mut()
            .filter_map(|member| member.tree.as_mut())
        {
            tree.hurry();
        }
    }

    /// The cgroup that was prepared for it, if it started there; else one that it is moved to.
    fn find_home(&mut self, id: Id, process: &Process) {
        let group = self.group_directory(id);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let prepared = member.home.take();
        let state = &self.state;
        let awaited = |directory: &Path| state.homes().any(|home| home == directory);
        member.home = prepared.filter(|home| home.holds(process)).or_else(|| {
            self.cgroups
                .make(id, &member.name, process, group.as_deref(), awaited)
        });
    }

    /// For a program of a group with a cgroup that is still to start.
    pub(super) fn prepare_home(&mut self, id: Id, kind: Kind) {
        if kind == Kind::Group || !self.config.cgroups {
            return;
        }
        let Some(group) = self.group_directory(id) else {
            return;
        };
        if let Some(member) = self.members.get_mut(id) {
            member.home = self.cgroups.prepare(id, &member.name, &group);
        }
    }

    /// The cgroup of the nearest group above, or of the domain.
    fn group_directory(&self, id: Id) -> Option<PathBuf> {
        let above = |id: &Id| self.core.figures(*id).and_then(|figures| figures.parent);
        let mut line = std::iter::successors(above(&id), above).take(crate::core::MAX_DEPTH);
        let group = line.find_map(|id| self.members.get(id)?.domain.as_ref()?.asked());
        group.or(self.domain.asked()).map(Path::to_path_buf)
    }
}
