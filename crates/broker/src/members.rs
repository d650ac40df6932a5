//! The daemon's side of each principal: whose it is, what it lives on, what is read and written.

use crate::act::Home;
use crate::core::Figures as CoreFigures;
use crate::publish::{PageFile, PressureSocket};
use crate::sense::{Figures, Portion, RootDomain, Tree};
use crate::server::poll::Slot;
use crate::server::share::Held;
use crate::state::Identity;
use plimsoll_wire::messages::{Id, Kind, Principal};
use plimsoll_wire::page::Level;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Shared memory (bytes) from which on it is asked how often its process maps it.
const MUCH_SHARED: u64 = 8 << 20;

/// One principal.
#[derive(Debug)]
pub struct Member {
    /// Its number.
    pub id: Id,
    /// Shown to people.
    pub name: String,
    /// A process or a group.
    pub kind: Kind,
    /// Who owns it.
    pub uid: u32,
    /// What of the broker's descriptors is held for it, without its descendants'.
    pub descriptors: Held,
    /// The connection that it lives on; `None` for automatic groups.
    pub slot: Option<Slot>,
    /// Who steers it.
    pub adapter: Option<String>,
    /// Its processes.
    pub tree: Option<Tree>,
    /// For a group: the process that keeps it and when that started, where it can be seen.
    pub keeper: Option<(i32, u64)>,
    /// For a group: the cgroup that bounds it.
    pub domain: Option<RootDomain>,
    /// The cgroup that was made for it.
    pub home: Option<Home>,
    /// Old number of a parent that has not rejoined yet.
    pub awaits: Option<Id>,
    /// Its page.
    pub page: PageFile,
    /// Its pressure socket.
    pub pressure: PressureSocket,
    /// Level as published last.
    pub level: Level,
    /// Owed as published last, bytes.
    pub owed: u64,
    /// Connections that are told of its changes.
    pub subscribers: Vec<Slot>,
    /// As read last.
    pub figures: Figures,
    /// What it pays of the shared memory that it maps, where that was measured.
    pub shared: Option<Portion>,
    /// Shared memory that the sampling thread was told of last, bytes.
    pub shmem_told: u64,
    /// Touched recently, as sampled last, bytes.
    pub working_set: Option<u64>,
}

impl Member {
    /// Whether the broker made this group by itself, for a limiting cgroup.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.slot.is_none()
    }

    /// By what it is known again after a crash.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let process = self
            .tree
            .as_ref()
            .map(|tree| (tree.root().pid(), tree.root().start_time()));
        Identity {
            uid: self.uid,
            name: self.name.clone(),
            process: process.or(self.keeper),
            group: self.kind == Kind::Group,
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.tree.as_ref().map(|tree| tree.root().pid())
    }

    /// Bytes accounted to it (own, without child principals) and in swap. The cgroup counts pages
    /// that its processes share by fork, or that one maps several times, once; the tree counts them in each, so the
    /// lesser is true. Idle principals are read now and then only, unless `all` is asked for.
    pub fn read(&mut self, now: u64, all: bool) -> (u64, u64) {
        let Some(tree) = &mut self.tree else {
            return (0, 0);
        };
        self.figures = tree.read(now, all);
        let shmem = self.shared.map_or(self.figures.shmem, |portion| {
            portion.now(self.figures.shmem_sum)
        });
        let alone = self.shared.is_none_or(|portion| portion.alone);
        let mapped_often = alone && self.figures.shmem >= MUCH_SHARED;
        let by_tree = self.figures.anon.saturating_add(shmem);
        let charged = self
            .home
            .as_ref()
            .filter(|home| home.complete && (self.figures.processes > 1 || mapped_often));
        match charged.map(Home::read) {
            Some(Ok((bytes, swapped))) => (by_tree.min(bytes), swapped.max(self.figures.swap)),
            _ => (by_tree, self.figures.swap),
        }
    }

    /// As `ps` shows it at `now` (ns), without its children.
    pub fn show(&mut self, figures: &CoreFigures, now: u64) -> Principal {
        Principal {
            id: self.id,
            name: self.name.clone(),
            pid: self.pid().and_then(|pid| u32::try_from(pid).ok()),
            kind: self.kind,
            adapter: self.adapter.clone(),
            weight: figures.weight,
            priority: figures.priority,
            uses: match self.kind {
                Kind::Process => figures.numbers.uses,
                Kind::Group => figures.subtree_uses,
            },
            limit: figures.numbers.limit,
            available: figures.numbers.available,
            owed: figures.numbers.owed,
            share: figures.numbers.share,
            max: Some(figures.max).filter(|&max| max != u64::MAX),
            working_set: figures.working_set,
            swapped: figures.swapped,
            major_faults: self.tree.as_mut().map_or(0, |tree| tree.major_faults(now)),
            level: figures.numbers.level,
            live: figures.live,
            collections: figures.collections,
            collection_ms: figures.collection_ms,
            collector: figures.collector,
            page: Some(self.page.path().display().to_string()),
            children: Vec::new(),
        }
    }
}

/// All principals.
#[derive(Debug, Default)]
pub struct Members {
    by_id: BTreeMap<Id, Member>,
    by_pid: HashMap<i32, Id>,
}

impl Members {
    /// Takes one in.
    pub fn insert(&mut self, member: Member) {
        if let Some(pid) = member.pid() {
            self.by_pid.insert(pid, member.id);
        }
        self.by_id.insert(member.id, member);
    }

    /// Gives a principal its process.
    pub fn attach(&mut self, id: Id, tree: Tree) {
        self.by_pid.insert(tree.root().pid(), id);
        if let Some(member) = self.by_id.get_mut(&id) {
            member.tree = Some(tree);
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, id: Id) -> Option<Member> {
        let member = self.by_id.remove(&id)?;
        if let Some(pid) = member.pid().filter(|pid| self.by_pid.get(pid) == Some(&id)) {
            self.by_pid.remove(&pid);
        }
        Some(member)
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// One of them.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Member> {
        self.by_id.get_mut(&id)
    }

    /// The living principal of that process.
    #[must_use]
    pub fn of_pid(&self, pid: i32) -> Option<&Member> {
        let member = self.by_id.get(self.by_pid.get(&pid)?)?;
        member
            .tree
            .as_ref()
            .is_some_and(Tree::alive)
            .then_some(member)
    }

    /// The automatic group for that cgroup.
    #[must_use]
    pub fn automatic(&self, directory: &Path) -> Option<Id> {
        let of = |member: &&Member| {
            member.is_automatic()
                && member.domain.as_ref().and_then(RootDomain::asked) == Some(directory)
        };
        self.by_id.values().find(of).map(|member| member.id)
    }

    /// How many a user owns.
    #[must_use]
    pub fn owned_by(&self, uid: u32) -> usize {
        self.by_id
            .values()
            .filter(|member| member.uid == uid && !member.is_automatic())
            .count()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values()
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_id.values_mut()
    }

    /// Looks for descendants where that is due, at most `most` principals: the rest waits for the
    /// next tick.
    pub fn rescan(&mut self, now: u64, most: usize) {
        let Members { by_id, by_pid } = self;
        let mut left = most;
        for member in by_id.values_mut() {
            let id = member.id;
            let Some(tree) = member.tree.as_mut().filter(|tree| tree.rescan_due(now)) else {
                continue;
            };
            tree.rescan(now, |pid| {
                by_pid.get(&pid).is_some_and(|&owner| owner != id)
            });
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }

    /// How many, without automatic groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id
            .values()
            .filter(|member| !member.is_automatic())
            .count()
    }

    /// Whether there are none but automatic groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
