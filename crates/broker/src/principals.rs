//! The daemon's data of each principal: owner, connection, process, page, cgroup and readings.

use crate::act::Home;
use crate::balance::reading::Reading;
use crate::decide::Figures as CoreFigures;
use crate::publish::{PageFile, PressureSocket};
use crate::sense::{Figures, Found, Portion, Request, RootDomain, Scanner, Tree};
use crate::server::epoll::Slot;
use crate::state::Identity;
use crate::user_quota::Held;
use plimsoll_wire::messages::{Id, Kind, Principal};
use plimsoll_wire::page::Level;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shared memory in bytes from which on the sampler checks how often a process maps it.
const MUCH_SHARED: u64 = 8 << 20;

/// One principal. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Member {
    /// Its id.
    pub id: Id,
    /// Name for display.
    pub name: String,
    /// A process or a group.
    pub kind: Kind,
    /// Uid of its owner.
    pub uid: u32,
    /// Uid that its work counts for: that of its process where the broker or root registered it.
    pub payer: u32,
    /// Descriptors of the broker held for it, without those for its descendants.
    pub descriptors: Held,
    /// The connection that it lives on; `None` for groups made by the broker.
    pub slot: Option<Slot>,
    /// Process id of the peer of that connection.
    pub registrar: u32,
    /// The user, if it is the group of a user.
    pub tenant: Option<u32>,
    /// The unit of the system's manager of its process; empty when there is none.
    pub unit: String,
    /// Name of its adapter.
    pub adapter: Option<String>,
    /// Its processes.
    pub tree: Option<Tree>,
    /// For a group: process id and start time of the process that keeps it, if visible.
    pub keeper: Option<(i32, u64)>,
    /// For a group: the cgroup that bounds it.
    pub domain: Option<RootDomain>,
    /// Use in bytes of other users' groups in that cgroup, as far as it is not counted in this
    /// group's domain.
    pub beside: u64,
    /// The cgroup made for it.
    pub home: Option<Home>,
    /// The cgroup under whose group it could not be put, while that cgroup bounds its process.
    pub refused: Option<PathBuf>,
    /// Old id of a parent that has not rejoined yet.
    pub awaits: Option<Id>,
    /// Its page.
    pub page: PageFile,
    /// Its pressure socket.
    pub pressure: PressureSocket,
    /// Level published last.
    pub level: Level,
    /// Bytes owed, as published last.
    pub owed: u64,
    /// Connections that subscribed to its changes.
    pub subscribers: Vec<Slot>,
    /// Values read last.
    pub figures: Figures,
    /// Bytes accounted to it and bytes in swap, as read last.
    pub last: (u64, u64),
    /// When they were read, ns; 0 before the first time.
    pub read_at: u64,
    /// When it said last that it gave memory back, ns, unless it was read since then.
    pub released_at: Option<u64>,
    /// Its part of the shared memory that it maps, where measured.
    pub shared: Option<Portion>,
    /// Shared memory last reported to the sampling thread, bytes.
    pub shmem_told: u64,
    /// Processor time that it wanted lately, in thousandths of that in which it ran; 0 when unknown.
    pub wanted: u32,
    /// Bytes touched recently, as sampled last.
    pub working_set: Option<u64>,
    /// Its refaults, as measured last.
    pub refaults: Option<Reading>,
    /// Swappiness of its cgroup as it was found, where the broker may change it.
    pub swappiness: Option<u32>,
    /// Whether the state file holds that.
    pub noted: bool,
}

impl Member {
    /// Whether the broker made this group by itself, for a limiting cgroup or for a user.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.slot.is_none()
    }

    /// Whether it is a user's: registered or adopted for that user, or a group made for it.
    #[must_use]
    pub fn is_of(&self, uid: u32) -> bool {
        self.uid == uid || self.payer == uid || self.tenant == Some(uid)
    }

    /// The identity by which it is recognised after a crash.
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

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.tree.as_ref().map(|tree| tree.root().pid())
    }

    /// Whether it is the group of a user.
    #[must_use]
    pub fn is_tenant(&self) -> bool {
        self.tenant.is_some()
    }

    /// Whether it lacks a process that could want memory.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.kind == Kind::Process && self.figures.processes == 0
    }

    /// Bytes accounted to it (own, without child principals) and bytes in swap. A cgroup counts a
    /// page once that its processes share by fork or that one maps several times; the process tree
    /// counts it in each process. So the smaller value is right. Idle principals are read only now
    /// and then, unless `all` is set.
    pub fn read(&mut self, now: u64, all: bool) -> (u64, u64) {
        let Some(tree) = &mut self.tree else {
            return (0, 0);
        };
        self.figures = tree.read(now, all);
        self.read_at = tree.read_at();
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
        self.last = match charged.map(Home::read) {
            Some(Ok((bytes, swapped))) => (by_tree.min(bytes), swapped.max(self.figures.swap)),
            _ => (by_tree, self.figures.swap),
        };
        self.last
    }

    /// The principal as `ps` shows it at `now` (ns), without its children.
    pub fn show(&mut self, figures: &CoreFigures, now: u64) -> Principal {
        Principal {
            id: self.id,
            name: self.name.clone(),
            pid: self.pid().and_then(|pid| u32::try_from(pid).ok()),
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
            max: figures.settings.max.bytes(),
            working_set: figures.working_set,
            swapped: figures.swapped,
            major_faults: self.tree.as_mut().map_or(0, |tree| tree.major_faults(now)),
            refaults: self.refaults.map(|reading| reading.shown()),
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
            page: Some(self.page.path().display().to_string()),
            children: Vec::new(),
        }
    }
}

/// All principals. Belongs to the deciding thread.
#[derive(Debug, Default)]
pub struct Members {
    /// The principals, by id.
    by_id: BTreeMap<Id, Member>,
    /// Their ids, by process id.
    by_pid: HashMap<i32, Id>,
    /// Id of each user's group.
    by_user: HashMap<u32, Id>,
    /// All process ids in order; rebuilt after a process came or went.
    pids: Option<Arc<[i32]>>,
    /// First id of the next round of scans and of readings: a principal that was put off comes
    /// first.
    scan_from: Id,
    read_from: Id,
    /// The ids of such a round; kept so that a tick does not allocate.
    round: Vec<Id>,
}

impl Members {
    /// Adds a principal.
    pub fn insert(&mut self, member: Member) {
        if let Some(pid) = member.pid() {
            self.by_pid.insert(pid, member.id);
            self.pids = None;
        }
        if let Some(uid) = member.tenant {
            self.by_user.insert(uid, member.id);
        }
        self.by_id.insert(member.id, member);
    }

    /// Gives a principal its process. A principal that counted it as a descendant lets it go.
    pub fn attach(&mut self, id: Id, tree: Tree) {
        let pid = tree.root().pid();
        for other in self.by_id.values_mut() {
            if let Some(tree) = &mut other.tree {
                tree.let_go(pid);
            }
        }
        self.by_pid.insert(pid, id);
        self.pids = None;
        if let Some(member) = self.by_id.get_mut(&id) {
            member.tree = Some(tree);
        }
    }

    /// Removes a principal.
    pub fn remove(&mut self, id: Id) -> Option<Member> {
        let member = self.by_id.remove(&id)?;
        if let Some(pid) = member.pid().filter(|pid| self.by_pid.get(pid) == Some(&id)) {
            self.by_pid.remove(&pid);
            self.pids = None;
        }
        if let Some(uid) = member.tenant {
            self.by_user.remove(&uid);
        }
        Some(member)
    }

    /// The principal with that id.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// The principal with that id.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Member> {
        self.by_id.get_mut(&id)
    }

    /// The live principal of that process.
    #[must_use]
    pub fn of_pid(&self, pid: i32) -> Option<&Member> {
        let member = self.by_id.get(self.by_pid.get(&pid)?)?;
        member
            .tree
            .as_ref()
            .is_some_and(Tree::alive)
            .then_some(member)
    }

    /// The group of a user.
    #[must_use]
    pub fn group_of_user(&self, uid: u32) -> Option<Id> {
        self.by_user.get(&uid).copied()
    }

    /// The automatic groups for that cgroup: one, or one per user where users are told apart.
    pub fn automatic<'m>(&'m self, directory: &'m Path) -> impl Iterator<Item = Id> + 'm {
        let of = move |member: &&Member| {
            member.is_automatic()
                && member.domain.as_ref().and_then(RootDomain::asked) == Some(directory)
        };
        self.by_id.values().filter(of).map(|member| member.id)
    }

    /// Number of principals of a user.
    #[must_use]
    pub fn owned_by(&self, uid: u32) -> usize {
        self.by_id
            .values()
            .filter(|member| member.uid == uid && !member.is_automatic())
            .count()
    }

    /// All principals.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values()
    }

    /// The ids of all in the order in which they are read; return the vector to
    /// [`end_round`](Members::end_round).
    pub(crate) fn begin_round(&mut self) -> Vec<Id> {
        let mut round = std::mem::take(&mut self.round);
        in_turn(&self.by_id, self.read_from, &mut round);
        round
    }

    /// Ends a round; the principal that was first `put_off` comes first in the next.
    pub(crate) fn end_round(&mut self, round: Vec<Id>, put_off: Option<Id>) {
        self.round = round;
        self.read_from = put_off.unwrap_or(0);
    }

    /// The ids of at most `most` principals, from `from` on and then from the first one on.
    #[must_use]
    pub fn some_from(&self, from: Id, most: usize) -> Vec<Id> {
        let numbers = self.by_id.range(from..).chain(self.by_id.range(..from));
        numbers.map(|(&id, _)| id).take(most).collect()
    }

    /// All principals.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_id.values_mut()
    }

    /// Requests scans for the descendants of at most `most` principals that are due; the rest waits
    /// for the next tick.
    pub fn ask_scans(&mut self, scanner: &Scanner, now: u64, most: usize) {
        let Members {
            by_id,
            by_pid,
            pids,
            scan_from,
            round,
            ..
        } = self;
        let mut left = most;
        in_turn(by_id, *scan_from, round);
        for &id in round.iter() {
            let tree = by_id
                .get_mut(&id)
                .and_then(|member| Some((member.uid, member.tree.as_mut()?)));
            let Some((uid, tree)) = tree else {
                continue;
            };
            let Some(known) = tree.due_scan(now) else {
                continue;
            };
            let principals = pids.get_or_insert_with(|| in_order(by_pid));
            let request = Request {
                id,
                known,
                principals: Arc::clone(principals),
                account: tree.account().clone(),
            };
            scanner.ask(uid, request);
            left -= 1;
            if left == 0 {
                *scan_from = id + 1;
                break;
            }
        }
    }

    /// Stores the result of a scan. Returns the owner if the set of processes changed.
    pub fn take_scan(
        &mut self,
        id: Id,
        found: plimsoll_kernel::Result<Found>,
        now: u64,
    ) -> Option<u32> {
        let uid = self.by_id.get(&id)?.uid;
        let Members { by_id, by_pid, .. } = self;
        let tree = by_id.get_mut(&id)?.tree.as_mut()?;
        let is_other = |pid: i32| by_pid.get(&pid).is_some_and(|&owner| owner != id);
        let changed = tree.take_over(found, now, &is_other);
        changed.then_some(uid)
    }

    /// Number of principals without automatic groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id
            .values()
            .filter(|member| !member.is_automatic())
            .count()
    }

    /// Whether there are only automatic groups, or none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All ids from `from` on, then those before it.
fn in_turn<T>(by_id: &BTreeMap<Id, T>, from: Id, round: &mut Vec<Id>) {
    let numbers = by_id.range(from..).chain(by_id.range(..from));
    round.clear();
    round.extend(numbers.map(|(&id, _)| id));
}

fn in_order(by_pid: &HashMap<i32, Id>) -> Arc<[i32]> {
    let mut pids: Vec<i32> = by_pid.keys().copied().collect();
    pids.sort_unstable();
    pids.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations;

    #[test]
    fn whoever_was_put_off_comes_first_and_a_further_round_allocates_nothing() {
        let all: BTreeMap<Id, ()> = [1, 2, 5, 9].map(|id| (id, ())).into();
        let mut round = Vec::new();
        in_turn(&all, 0, &mut round);
        assert_eq!(round, [1, 2, 5, 9]);
        let before = allocations::count();
        in_turn(&all, 3, &mut round);
        assert_eq!(allocations::count(), before);
        assert_eq!(round, [5, 9, 1, 2]);
    }
}
