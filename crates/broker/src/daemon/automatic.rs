//! Automatic actions of the broker: groups for cgroups that bound their processes, and rules.

use super::Daemon;
use super::join::Draft;
use crate::config::Given;
use crate::core::NewPrincipal;
use crate::members::Member;
use crate::sense::{self, RootDomain};
use plimsoll_kernel::process::Process;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Id, Kind, Max, Priority, Set, Weight};
use std::collections::BTreeMap;
use std::path::Path;

impl Daemon {
    /// The automatic group for the cgroup that bounds a process of user `user`; made when it does
    /// not exist yet. Where users are told apart, each user has one inside its own group: a limit
    /// that users share must not connect their groups.
    pub(super) fn automatic_for(&mut self, process: &Process, user: u32, now: u64) -> Option<Id> {
        let ours = self.cgroups.own().unwrap_or(Path::new("/")).to_path_buf();
        let ours = self.domain.asked().map_or(ours, Path::to_path_buf);
        let directory = sense::limiting_group(process.pid(), self.domain.last().capacity, &ours)?;
        let top = self.members.group_of_user(user);
        let above = |id: &Id| self.core.figures(*id).and_then(|figures| figures.parent);
        let mut made = self.members.automatic(&directory);
        if let Some(id) = made.find(|id| !self.options.system || above(id) == top) {
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
        let draft = Draft {
            domain: Some(domain),
            ..Draft::made_by(self.uid, new)
        };
        let made = descriptors.and_then(|held| Ok((self.admit(draft, now)?, held)));
        let (id, held) = made
            .inspect_err(|_| self.drop_empty_automatic(parent))
            .ok()?;
        if let Some(member) = self.members.get_mut(id) {
            member.descriptors = held;
            member.payer = user;
        }
        Some(id)
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
                *sum = sum.saturating_add(figures.weight.get());
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
            let Some(tree) = &member.tree else { continue };
            let facts = sense::facts_of(tree.root());
            all.push((member.id, self.config.given(&facts)));
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
