//! What the broker does by itself: groups for cgroups that bound their processes, and rules.

use super::Daemon;
use super::join::Draft;
use crate::config::Given;
use crate::core::NewPrincipal;
use crate::members::Member;
use crate::sense::{self, RootDomain};
use plimsoll_kernel::process::Process;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Id, Kind, Set};
use std::path::Path;

impl Daemon {
    /// The automatic group for the cgroup that bounds a process, made when there is none yet.
    pub(super) fn automatic_for(&mut self, process: &Process, now: u64) -> Option<Id> {
        let ours = self.cgroups.own().unwrap_or(Path::new("/")).to_path_buf();
        let ours = self.domain.asked().map_or(ours, Path::to_path_buf);
        let directory = sense::limiting_group(process.pid(), self.domain.last().capacity, &ours)?;
        if let Some(id) = self.members.automatic(&directory) {
            return Some(id);
        }
        let name = directory.file_name()?.to_string_lossy();
        let new = NewPrincipal {
            name: checks::mend_name(&name),
            kind: Kind::Group,
            parent: None,
            weight: checks::DEFAULT_WEIGHT,
            priority: 0,
            max: None,
            adaptive: false,
        };
        let domain = RootDomain::open(Some(&directory)).ok()?;
        // It is the broker's, and there because of whose process it is.
        let owner = process.uid().ok()?;
        let descriptors = self.descriptors_of(owner, Kind::Group, Some(&domain), now);
        let descriptors = descriptors.ok()?;
        let (uid, slot, adapter, process) = (self.uid, None, None, None);
        let draft = Draft {
            new,
            uid,
            slot,
            adapter,
            process,
            keeper: None,
            domain: Some(domain),
            awaits: None,
            kept: None,
        };
        let id = self.admit(draft, now).ok()?;
        if let Some(member) = self.members.get_mut(id) {
            member.descriptors = descriptors;
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

    /// An automatic group weighs what its members weigh together, so that being in it costs nothing.
    pub(super) fn weigh_automatic(&mut self) {
        let groups: Vec<Id> = self
            .members
            .iter()
            .filter(|member| member.is_automatic())
            .map(|member| member.id)
            .collect();
        for id in groups {
            let children = self
                .core
                .iter()
                .filter(|figures| figures.parent == Some(id));
            let weight: u32 = children.map(|figures| figures.weight).sum();
            let weight = weight.clamp(*checks::WEIGHTS.start(), *checks::WEIGHTS.end());
            let _ = self.core.set(&Set {
                id,
                weight: Some(weight),
                ..Set::default()
            });
        }
    }

    /// Rules were read anew: those that name a living principal hold for it too.
    pub(super) fn apply_rules(&mut self) {
        let given: Vec<(Id, Given)> = self
            .members
            .iter()
            .filter_map(|member| {
                Some((
                    member.id,
                    self.config
                        .given(&sense::facts_of(member.tree.as_ref()?.root())),
                ))
            })
            .collect();
        for (id, given) in given {
            self.apply_given(id, given);
        }
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
