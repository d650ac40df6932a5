//! Automatic actions of the broker: groups for cgroups that bound their processes, processes that
//! are moved between such cgroups, and rules.

use super::Daemon;
use super::register::Draft;
use crate::act::Home;
use crate::config::Given;
use crate::decide::NewPrincipal;
use crate::descriptors::CGROUP;
use crate::principals::{Member, Owner};
use crate::sense::{self, RootDomain, Tree};
use plimsoll_kernel::process::Process;
use plimsoll_unit::Nanos;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Id, Kind, Max, Priority, Set, Weight};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Daemon {
    /// The innermost cgroup that bounds a process and not the broker as well.
    fn binding(&self, pid: i32) -> plimsoll_kernel::Result<Option<PathBuf>> {
        let ours = self.acting.own_cgroup().unwrap_or(Path::new("/"));
        let ours = self.sensing.domain().asked().unwrap_or(ours);
        let capacity = self.sensing.domain().last().capacity;
        sense::limiting_group(pid, capacity, ours)
    }

    /// The automatic group for the cgroup that bounds a process of user `user`; made when it does
    /// not exist yet. Where users are told apart, each user has one inside its own group: a limit
    /// that users share must not connect their groups.
    pub(super) fn automatic_for(&mut self, process: &Process, user: u32, now: Nanos) -> Option<Id> {
        let directory = self.binding(process.pid()).ok()??;
        let top = self.members.group_of_user(user);
        let above = |id: &Id| self.core.figures(*id).and_then(|figures| figures.parent);
        let mut made = self.members.automatic(&directory);
        if let Some(id) = made.find(|id| !self.settings.options.system || above(id) == top) {
            return Some(id);
        }
        drop(made);
        let domain = RootDomain::open(Some(&directory)).ok()?;
        let name = checks::mend_name(&directory.file_name()?.to_string_lossy());
        let parent = self.group_of_user(user, now).ok()?;
        let new = NewPrincipal {
            name,
            kind: Kind::Group,
            parent,
            weight: Weight::default(),
            priority: Priority::default(),
            max: Max::NONE,
            adaptive: false,
            tenant: false,
            automatic: true,
        };
        // The group belongs to the broker, but it exists because of the owner of this process.
        let owner = process.uid().ok()?;
        let descriptors = self.descriptors_of(owner, Kind::Group, Some(&domain), now);
        let group = Owner {
            payer: user,
            ..Owner::broker(self.settings.uid)
        };
        let draft = Draft {
            domain: Some(domain),
            ..Draft::new(group, new)
        };
        let made = descriptors.and_then(|held| Ok((self.admit(draft, now)?, held)));
        let (id, held) = made
            .inspect_err(|_| self.drop_empty_automatic(parent))
            .ok()?;
        if let Some(member) = self.members.get_mut(id) {
            member.descriptors = held;
        }
        Some(id)
    }

    /// Follows processes that were moved to another cgroup, or whose cgroup got or lost its limit.
    /// Looks at some principals at a time, in turn.
    pub(super) fn follow_moves(&mut self, now: Nanos) {
        for id in self.sensing.some_to_follow(&self.members) {
            self.follow_home(id, now);
            self.follow_move(id, now);
        }
    }

    /// Lets go of a principal's cgroup that its process has left. The memory charged there is not the
    /// principal's any more, a bound there would bind others, and the cgroup stands in the way of whoever
    /// removes the group above.
    fn follow_home(&mut self, id: Id, now: Nanos) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let Some(root) = member.memory.tree.as_ref().map(Tree::root) else {
            return;
        };
        // Looked at first: of a process that is exiting, version 1 says that it is in the top cgroup.
        let is_left = |home: &mut Home| home.is_left_by(root) && !root.is_ending();
        let Some(home) = member.home.take_if(is_left) else {
            return;
        };
        let held = member.descriptors.split(CGROUP);
        self.acting.let_go(member.owner.uid, home, held);
        self.state.touch();
        self.timers.tick_soon(now);
    }

    /// Moves a principal to the group for the cgroup that bounds its process now, or to the top if
    /// there is none. One that is under another principal, or waits for one, stays there.
    fn follow_move(&mut self, id: Id, now: Nanos) {
        let before = self.core.figures(id).and_then(|figures| figures.parent);
        let above = before.and_then(|above| self.members.get(above));
        let known = above.and_then(|above| above.domain.as_ref()?.asked());
        let by_cgroup =
            |member: &&Member| member.awaits.is_none() && above.is_none_or(Member::is_automatic);
        let Some(member) = self.members.get(id).filter(by_cgroup) else {
            return;
        };
        let Some(root) = member.memory.tree.as_ref().map(Tree::root) else {
            return;
        };
        let Ok(binding) = self.binding(root.pid()) else {
            return;
        };
        // Looked at afterwards: of a process that is exiting, version 1 says that it is in the top cgroup.
        if root.is_ending() {
            return;
        }
        // The cgroup that we made for it bounds it at times.
        let home = member.home.as_ref().map(Home::directory);
        let by_us = |group: &Path| home.is_some_and(|home| group.starts_with(home));
        if binding.as_deref() == known || binding.as_deref().is_some_and(by_us) {
            return;
        }
        if binding.is_some() && binding == member.refused {
            return;
        }
        let user = self.user_of(id).unwrap_or(member.owner.payer);
        let Ok(process) = Process::open_known(root.pid(), root.start_time()) else {
            return;
        };
        let parent = match binding {
            Some(_) => self.automatic_for(&process, user, now),
            None => self.group_of_user(user, now).ok().flatten(),
        };
        let is_put = (parent.is_some() || binding.is_none()) && self.put_under(id, before, parent);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        if !is_put {
            tracing::debug!(principal = id, "no group for the cgroup that it is in now");
            member.refused = binding;
            return;
        }
        member.refused = None;
        self.state.touch();
        self.timers.tick_soon(now);
    }

    /// Puts a principal under another parent, or at the top, and drops automatic groups that are
    /// empty then. Returns whether it could be put there.
    pub(super) fn put_under(&mut self, id: Id, before: Option<Id>, parent: Option<Id>) -> bool {
        let put = match parent {
            None => self.core.set_top(id),
            Some(_) => self.core.set(&Set {
                id,
                parent,
                ..Set::default()
            }),
        };
        if let Err(error) = &put {
            tracing::debug!(principal = id, parent, %error, "it stays where it is");
            self.drop_empty_automatic(parent);
        }
        self.drop_empty_automatic(before);
        self.weigh_automatic();
        put.is_ok()
    }

    pub(super) fn drop_empty_automatic(&mut self, parent: Option<Id>) {
        let Some(id) = parent.filter(|&id| self.members.get(id).is_some_and(Member::is_automatic))
        else {
            return;
        };
        if self.core.iter().all(|figures| figures.parent != Some(id)) {
            self.end(id, "its last member left");
        }
    }

    /// Sets the weight of each automatic group for a cgroup to the sum of its members' weights, so
    /// that membership costs nothing.
    pub(super) fn weigh_automatic(&mut self) {
        let groups = self.members.iter().filter(|member| member.is_automatic());
        let groups = groups.filter(|member| !member.is_tenant());
        let mut weights: BTreeMap<Id, u32> = groups.map(|member| (member.id, 0)).collect();
        if weights.is_empty() {
            return;
        }
        for figures in self.core.iter() {
            if let Some(parent) = figures.parent
                && let Some(sum) = weights.get_mut(&parent)
            {
                *sum = sum.saturating_add(figures.settings.weight.get());
            }
        }
        for (id, weight) in weights {
            let _ = self.core.set(&Set {
                id,
                weight: Some(Weight::nearest(weight.into())),
                ..Set::default()
            });
        }
    }

    /// Applies rules that were read again: those that match a live principal take effect for it as
    /// well.
    pub(super) fn apply_rules(&mut self) {
        let mut all: Vec<(Id, Given)> = Vec::new();
        for member in self.members.iter_mut() {
            let Some(tree) = &member.memory.tree else {
                continue;
            };
            let facts = sense::facts_of(tree.root());
            all.push((member.id, self.settings.config.given(&facts)));
            member.unit = facts.system_unit;
        }
        for (id, given) in all {
            self.apply_given(id, given);
        }
        self.stand_all();
        self.weigh_automatic();
    }

    pub(super) fn apply_given(&mut self, id: Id, given: Given) {
        let set = Set {
            id,
            weight: given.weight,
            priority: given.priority,
            ..Set::default()
        };
        if set
            != (Set {
                id,
                ..Set::default()
            })
            && let Err(error) = self.core.set(&set)
        {
            tracing::warn!(principal = id, %error, "a rule could not be applied");
        }
        if given.adapter.is_some() {
            self.set_adapter(id, given.adapter);
        }
    }
}
