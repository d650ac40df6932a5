//! One principal.

use super::memory::Memory;
use super::owner::Owner;
use crate::act::Home;
use crate::balance::Reclaim;
use crate::decide::Figures;
use crate::publish::Outlet;
use crate::sense::RootDomain;
use crate::state::Identity;
use crate::user_quota::Held;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Kind, Principal};
use std::path::PathBuf;

/// One principal. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Member {
    /// Its id.
    pub id: Id,
    /// Name for display.
    pub name: String,
    /// A process or a group.
    pub kind: Kind,
    /// Whose it is.
    pub owner: Owner,
    /// Descriptors of the broker held for it, without those for its descendants.
    pub descriptors: Held,
    /// The unit of the system's manager of its process; empty when there is none.
    pub unit: String,
    /// Name of its adapter.
    pub adapter: Option<String>,
    /// Its processes and their memory.
    pub memory: Memory,
    /// For a group: the cgroup that bounds it.
    pub domain: Option<RootDomain>,
    /// Use in bytes of other users' groups in that cgroup, as far as it is not counted in this
    /// group's domain.
    pub beside: Bytes,
    /// The cgroup made for it.
    pub home: Option<Home>,
    /// The cgroup under whose group it could not be put, while that cgroup bounds its process.
    pub refused: Option<PathBuf>,
    /// Old id of a parent that has not rejoined yet.
    pub awaits: Option<Id>,
    /// Where it learns its numbers.
    pub outlet: Outlet,
    /// The cost of reclaim for it.
    pub reclaim: Reclaim,
}

impl Member {
    /// Whether the broker made this group by itself, for a limiting cgroup or for a user.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.owner.is_broker()
    }

    /// The identity by which it is recognised after a crash.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            uid: self.owner.uid,
            name: self.name.clone(),
            process: self.memory.root().or(self.owner.keeper),
            group: self.kind == Kind::Group,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.memory.root().map(|(pid, _)| pid)
    }

    /// Whether it is the group of a user.
    #[must_use]
    pub fn is_tenant(&self) -> bool {
        self.owner.tenant.is_some()
    }

    /// Whether it lacks a process that could want memory.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.kind == Kind::Process && self.memory.is_absent()
    }

    /// The principal as `ps` shows it at `now`, without its children.
    pub fn show(&mut self, figures: &Figures, now: Nanos) -> Principal {
        Principal {
            id: self.id,
            name: self.name.clone(),
            pid: self.pid().and_then(|pid| u32::try_from(pid).ok()),
            uid: Some(self.owner.tenant.unwrap_or(self.owner.payer)),
            kind: self.kind,
            adapter: self.adapter.clone(),
            weight: figures.settings.weight.get(),
            priority: figures.settings.priority.get(),
            uses: match self.kind {
                Kind::Process => figures.numbers.uses,
                Kind::Group => figures.subtree.uses,
            },
            limit: figures.numbers.limit,
            available: figures.numbers.available,
            owed: figures.numbers.owed,
            share: figures.numbers.share,
            max: figures.settings.max.bytes().map(|bytes| bytes.0),
            working_set: figures.working_set,
            swapped: figures.swapped,
            major_faults: self.memory.major_faults(now),
            refaults: self.reclaim.refaults().map(|reading| reading.shown()),
            revocations: figures.revocations,
            level: figures.numbers.level,
            live: figures.told.live,
            collections: figures.told.collections,
            collection_ms: figures.told.collection_ms,
            stall_rate: figures.stalls.rate,
            doubted: figures.stalls.doubted,
            demand: match self.kind {
                Kind::Process => figures.wants.demand,
                Kind::Group => 0,
            },
            target: match self.kind {
                Kind::Process => figures.wants.target,
                Kind::Group => 0,
            },
            lacks: figures.wants.lacks,
            at_least: figures.wants.at_least,
            collector: figures.told.collector,
            page: Some(self.outlet.page.path().display().to_string()),
            children: Vec::new(),
        }
    }
}
