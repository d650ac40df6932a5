//! A principal's process: its owner, ancestors, cgroup and end.

use super::Daemon;
use super::caller::Caller;
use super::register::bad_cgroup;
use crate::act::Home;
use crate::descriptors::CGROUP;
use crate::principals::Member;
use crate::sense::{self, Tree};
use crate::server::epoll::Token;
use crate::server::reply::{Answer, once, process_refused, refused};
use plimsoll_kernel::process::{Process, descendants_within, own};
use plimsoll_wire::messages::{Adapt, Attach, Contain, Id, Kind, Nothing};
use plimsoll_wire::varlink::{Call, ErrorName, WireError};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Most ancestors examined to find the principal that a new one descends from.
const MAX_LINE: usize = 64;
/// A process with more descendants than this is adopted only if the caller says that it knows.
const MANY: usize = 100;
/// Most processes of a container among which a caller's is looked for.
const MANY_IN_CONTAINER: usize = 1024;
/// Most threads whose descendants are looked for, by the thread that decides (some microseconds each).
const MANY_THREADS: usize = 8 * MANY;

impl Daemon {
    /// Opens a process for its owner, unless it already is a principal. `pid` is its number for the caller.
    pub(super) fn claim(&self, caller: &Caller, pid: u32) -> Result<Process, WireError> {
        let pid = number_here(caller, pid)?;
        let process = sense::open(pid).map_err(|error| process_refused(pid, &error))?;
        let owner = process
            .uid()
            .map_err(|error| process_refused(pid, &error))?;
        if owner != caller.peer.uid && !self.settings.is_ruler(caller.peer.uid) {
            let message = format!(
                "process {pid} belongs to user {owner}; only that user or root may register it"
            );
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        if owner != self.settings.uid && self.settings.uid != 0 && !self.settings.options.system {
            let message = format!(
                "process {pid} belongs to user {owner}, and this broker is user {}'s own: it shares out the \
                 memory of that user's programs only; the system's broker serves all users",
                self.settings.uid
            );
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        let known = self.is_told_apart(owner) || self.settings.is_ruler(caller.peer.uid);
        if !known && !descends(&process, caller.peer.pid) {
            let message = format!(
                "the users of this namespace cannot be told apart, so process {pid} may only be \
                 registered by itself or one that it descends from"
            );
            return Err(WireError::new(ErrorName::NotPermitted, message));
        }
        if let Some(other) = self.members.of_pid(process.pid()) {
            let message = format!(
                "process {pid} is {} already; use that one",
                self.called(other, caller.peer.uid)
            );
            return Err(WireError::new(ErrorName::AlreadyRegistered, message));
        }
        Ok(process)
    }

    /// Refuses a process that stands for much more than one program, unless the caller started it or
    /// knows (`whole`).
    pub(super) fn check_extent(
        caller: &Caller,
        process: &Process,
        whole: Option<bool>,
    ) -> Result<(), WireError> {
        let pid = process.pid();
        if descends(process, caller.peer.pid) {
            return Ok(());
        }
        let refuse = |why: &str| {
            let message = format!("process {pid} {why}");
            Err(WireError::new(ErrorName::NotPermitted, message))
        };
        if pid == 1 && own::is_in_first_namespace() {
            return refuse("is the first process of this machine; adopt a program below it");
        }
        if whole == Some(true) {
            return Ok(());
        }
        if process.ids().is_ok_and(|ids| ids.inner_pid == 1) {
            return refuse(
                "is the first process of a container, and stands for all of it; adopt a program below \
                 it, or say `--whole`",
            );
        }
        let (mut found, mut threads) = (Vec::new(), MANY_THREADS);
        match descendants_within(pid, MANY + 1, &mut threads, &mut found) {
            Ok(complete) if complete && found.len() <= MANY => Ok(()),
            Ok(_) if found.len() <= MANY => refuse(&format!(
                "has, with its descendants, more than {MANY_THREADS} threads, too many to see how many \
                 descendants they have; say `--whole` if it is one program"
            )),
            Ok(_) => refuse(&format!(
                "has more than {MANY} descendants, which would all count as one program; adopt a program \
                 below it, or say `--whole`"
            )),
            Err(error) => Err(process_refused(pid.unsigned_abs(), &error)),
        }
    }

    /// The principal that a process of user `user` descends from: one of the caller's, or, where
    /// users are told apart, one in that user's group.
    pub(super) fn above(&self, process: &Process, caller: &Caller, user: u32) -> Option<Id> {
        let fits = |member: &Member| {
            if self.settings.options.system {
                self.user_of(member.id) == Some(user)
            } else {
                member.owner.uid == caller.peer.uid
            }
        };
        let mut line = ancestors(process);
        line.find_map(|pid| {
            let member = self.members.of_pid(pid).filter(|member| fits(member));
            member.map(|member| member.id)
        })
    }

    pub(super) fn attach(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Attach = call.parameters()?;
        let id = self.permitted(caller, asked.id)?;
        let Some(member) = self.members.get(id) else {
            return Err(refused(crate::decide::Refusal::NoSuchPrincipal(id)));
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
        Daemon::check_extent(caller, &process, asked.whole)?;
        self.place_by_process(id, &process, caller);
        let facts = sense::facts_of(&process);
        self.give_process(id, process);
        self.apply_given(id, self.settings.config.given(&facts));
        if let Some(member) = self.members.get_mut(id) {
            member.unit = facts.system_unit;
        }
        self.stand_in_unit(id);
        self.state.touch();
        self.tick_soon_for(caller.peer.uid, caller.now);
        once(&Nothing {})
    }

    /// Takes over the cgroup that a principal's user made for its process.
    pub(super) fn contain(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Contain = call.parameters()?;
        let id = self.permitted(caller, asked.id)?;
        let refuse = |why: &dyn Display| bad_cgroup(&asked.cgroup, why);
        let cgroup = self.own_cgroup_of(caller, &asked.cgroup)?;
        if !self.settings.config.cgroups {
            return once(&Nothing {});
        }
        let home = self.members.get(id).and_then(|member| member.home.as_ref());
        if home.is_some_and(|home| home.directory() == cgroup.dir()) {
            return once(&Nothing {});
        }
        self.descriptors_of_cgroup(id, caller)?;
        let Some(member) = self.members.get_mut(id) else {
            return Err(refused(crate::decide::Refusal::NoSuchPrincipal(id)));
        };
        let process = member.memory.tree.as_ref().map(Tree::root);
        let process = process.ok_or_else(|| refuse(&"its principal has no process yet"))?;
        let home = Home::given(cgroup, process, caller.peer.uid);
        let home = home.map_err(|error| refuse(&error))?.ok_or_else(|| {
            refuse(&"the principal's process is not in it, or its memory.high belongs to somebody else")
        })?;
        let earlier = member.home.replace(home);
        if let Some(earlier) = earlier {
            let held = member.descriptors.split(CGROUP);
            self.acting.let_go(member.owner.uid, earlier, held);
        }
        self.state.touch();
        self.tick_soon_for(caller.peer.uid, caller.now);
        once(&Nothing {})
    }

    /// Moves a principal that was registered without a process and a parent to the place that its
    /// process has.
    fn place_by_process(&mut self, id: Id, process: &Process, caller: &Caller) {
        let named = |member: &Member| member.awaits.is_some();
        let Some(before) = self.core.figures(id).map(|figures| figures.parent) else {
            return;
        };
        if !self.is_top(before) || self.members.get(id).is_none_or(named) {
            return;
        }
        let user = self.counts_with(caller, Some(process));
        let found = self.parent_of(process, caller);
        let found = found.or_else(|| self.group_of_user(user, caller.now).ok().flatten());
        let Some(parent) = found.filter(|&found| Some(found) != before) else {
            return;
        };
        self.put_under(id, before, Some(parent));
    }

    /// Sets the adapter of a principal, unless a rule sets it.
    pub(super) fn adapt(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let asked: Adapt = call.parameters()?;
        let id = self.permitted(caller, asked.id)?;
        let process = self
            .members
            .get(id)
            .and_then(|member| member.memory.tree.as_ref());
        let given = process.map(|tree| self.settings.config.given(&sense::facts_of(tree.root())));
        let adapter = given.and_then(|given| given.adapter);
        let adapter = adapter.or(asked.adapter.map(String::from));
        self.set_adapter(id, adapter);
        if let Some((member, name)) = self.members.get_mut(id).zip(asked.name) {
            member.name = name.into();
        }
        self.tick_soon_for(caller.peer.uid, caller.now);
        once(&Nothing {})
    }

    pub(super) fn set_adapter(&mut self, id: Id, adapter: Option<String>) {
        if let Some(member) = self.members.get_mut(id) {
            member.adapter = adapter.filter(|adapter| adapter != "none");
            let _ = self.core.set_adaptive(id, member.adapter.is_some());
        }
    }

    /// Watches a process for its end, follows its descendants, and gives it a cgroup where that is
    /// allowed.
    pub(super) fn give_process(&mut self, id: Id, process: Process) {
        if let Some(pidfd) = process.pidfd()
            && let Err(error) = self.serving.watch_lightly(pidfd, Token::Process(id))
        {
            tracing::warn!(principal = id, %error, "its end cannot be watched");
        }
        if self.settings.config.cgroups {
            self.find_home(id, &process);
        }
        let account = self.account_of(id);
        self.members.attach(id, Tree::new(process, account));
        self.release_unneeded(id);
    }

    /// Finds its cgroup: the prepared one if the process started there, otherwise a new one that it
    /// is moved to.
    fn find_home(&mut self, id: Id, process: &Process) {
        let group = self.group_directory(id);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let prepared = member.home.take();
        let state = &self.state;
        let awaited = |directory: &Path| state.homes().any(|home| home == directory);
        member.home = prepared.filter(|home| home.holds(process)).or_else(|| {
            let name = self.settings.shows_others.then_some(member.name.as_str());
            self.acting
                .cgroups()
                .make(id, name, process, group.as_deref(), awaited)
        });
    }

    /// Prepares a cgroup for a program that has not started yet, in a group with a cgroup.
    pub(super) fn prepare_home(&mut self, id: Id, kind: Kind) {
        if kind == Kind::Group || !self.settings.config.cgroups {
            return;
        }
        let Some(group) = self.group_directory(id) else {
            return;
        };
        if let Some(member) = self.members.get_mut(id) {
            let name = self.settings.shows_others.then_some(member.name.as_str());
            member.home = self.acting.cgroups().prepare(id, name, &group);
        }
    }

    /// The cgroup of the nearest group above it, or of the domain.
    fn group_directory(&self, id: Id) -> Option<PathBuf> {
        let above = |id: &Id| self.core.figures(*id).and_then(|figures| figures.parent);
        let mut line = std::iter::successors(above(&id), above).take(crate::decide::MAX_DEPTH);
        let group = line.find_map(|id| self.members.get(id)?.domain.as_ref()?.asked());
        group
            .or(self.sensing.domain().asked())
            .map(Path::to_path_buf)
    }
}

/// The broker's number for the process that its caller calls `pid`: a container has numbers of its own. There
/// the process is looked for among those of the container, which is what descends from its first one.
fn number_here(caller: &Caller, pid: u32) -> Result<u32, WireError> {
    let refuse = |why: &str| {
        let message = format!("process {pid} of the caller {why}");
        Err(WireError::new(ErrorName::NotPermitted, message))
    };
    if caller.peer.pid == 0 {
        return refuse(
            "is not visible to this broker, which is in another container; give the broker the pid namespace \
             of the host (`pid: host`), or all of them a common one",
        );
    }
    let Some(peer) = inner(caller.peer.pid as i32).filter(|peer| peer.levels > 1) else {
        return Ok(pid);
    };
    let is_asked_for = |one: &Inner| one.levels == peer.levels && one.pid == pid;
    if is_asked_for(&peer) {
        return Ok(caller.peer.pid);
    }
    let mut first = caller.peer.pid as i32;
    for above in (sense::open(caller.peer.pid).iter()).flat_map(ancestors) {
        match inner(above) {
            Some(one) if one.levels == peer.levels => first = above,
            _ => break,
        }
    }
    let (mut found, mut threads) = (Vec::new(), MANY_THREADS);
    descendants_within(first, MANY_IN_CONTAINER, &mut threads, &mut found)
        .map_err(|error| process_refused(pid, &error))?;
    let same = |one: &&i32| inner(**one).is_some_and(|one| is_asked_for(&one));
    match found.iter().find(same) {
        Some(here) => Ok(here.unsigned_abs()),
        None => refuse("is not there, or its container has too many processes to find it"),
    }
}

/// A process as its own pid namespace knows it.
struct Inner {
    pid: u32,
    /// Namespaces from the broker's down to its own.
    levels: u32,
}

fn inner(pid: i32) -> Option<Inner> {
    let ids = Process::open(pid).ok()?.ids().ok()?;
    Some(Inner {
        pid: ids.inner_pid.unsigned_abs(),
        levels: ids.pid_levels,
    })
}

/// Whether a process is `pid` or descends from it.
fn descends(process: &Process, pid: u32) -> bool {
    let pid = i32::try_from(pid).unwrap_or(0);
    pid > 0 && (process.pid() == pid || ancestors(process).any(|above| above == pid))
}

/// Process ids of its ancestors, nearest first.
fn ancestors(process: &Process) -> impl Iterator<Item = i32> {
    let parent_of = |process: &Process| process.ids().ok().map(|ids| ids.parent);
    let above = move |&pid: &i32| match pid {
        ..=1 => None,
        _ => parent_of(&Process::open(pid).ok()?),
    };
    std::iter::successors(process.ids().ok().map(|ids| ids.parent), above).take(MAX_LINE)
}
