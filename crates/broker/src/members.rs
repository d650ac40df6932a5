//! The daemon's side of each principal: whose it is, what it lives on, what is read and written.

use crate::act::Home;
use crate::core::Figures as CoreFigures;
use crate::publish::{PageFile, PressureSocket};
use crate::sense::{Figures, Found, Portion, Request, RootDomain, Scanner, Tree};
use crate::server::poll::Slot;
use crate::share::Held;
use crate::state::Identity;
use plimsoll_wire::messages::{Id, Kind, Principal};
use plimsoll_wire::page::Level;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

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
    /// As whose the work for it counts: where the broker or root made it, whose process is in it.
    pub payer: u32,
    /// What of the broker's descriptors is held for it, without its descendants'.
    pub descriptors: Held,
    /// The connection that it lives on; `None` for groups that the broker made.
    pub slot: Option<Slot>,
    /// The process at the other end of that connection.
    pub registrar: u32,
    /// For the group of a user: whose.
    pub tenant: Option<u32>,
    /// The unit of the system's manager that its process is in; empty when none.
    pub unit: String,
    /// Who steers it.
    pub adapter: Option<String>,
    /// Its processes.
    pub tree: Option<Tree>,
    /// For a group: the process that keeps it and when that started, where it can be seen.
    pub keeper: Option<(i32, u64)>,
    /// For a group: the cgroup that bounds it.
    pub domain: Option<RootDomain>,
    /// What others' groups use in that cgroup, as far as it is left out of what this group is in, bytes.
    pub beside: u64,
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
    /// Accounted to it, and in swap, as read last, bytes.
    pub last: (u64, u64),
    /// What it pays of the shared memory that it maps, where that was measured.
    pub shared: Option<Portion>,
    /// Shared memory that the sampling thread was told of last, bytes.
    pub shmem_told: u64,
    /// Touched recently, as sampled last, bytes.
    pub working_set: Option<u64>,
}

impl Member {
    /// Whether the broker made this group by itself, for a limiting cgroup or a user.
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

    /// Whether it is the group of a user.
    #[must_use]
    pub fn is_tenant(&self) -> bool {
        self.tenant.is_some()
    }

    /// Whether no process is behind it that could want anything for itself.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.kind == Kind::Process && self.figures.processes == 0
    }

    /// Bytes accounted to it (own, without child principals) and in swap. The cgroup counts pages
    /// that its processes share by fork, or that one maps several times, once; the tree counts them
    /// in each, so the lesser is true. Idle principals are read now and then only, unless `all` is
    /// asked for.
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
        self.last = match charged.map(Home::read) {
            Some(Ok((bytes, swapped))) => (by_tree.min(bytes), swapped.max(self.figures.swap)),
            _ => (by_tree, self.figures.swap),
        };
        self.last
    }

    /// As `ps` shows it at `now` (ns), without its children.
    pub fn show(&mut self, figures: &CoreFigures, now: u64) -> Principal {
        Principal {
            id: self.id,
            name: self.name.clone(),
            pid: self.pid().and_then(|pid| u32::try_from(pid).ok()),
            kind: self.kind,
            adapter: self.adapter.clone(),
            weight: figures.weight.get(),
            priority: figures.priority.get(),
            uses: match self.kind {
                Kind::Process => figures.numbers.uses,
                Kind::Group => figures.subtree_uses,
            },
            limit: figures.numbers.limit,
            available: figures.numbers.available,
            owed: figures.numbers.owed,
            share: figures.numbers.share,
            max: figures.max.bytes(),
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
    /// The groups of users.
    by_user: HashMap<u32, Id>,
    /// All their processes in order; made anew when one came or went.
    pids: Option<Arc<[i32]>>,
    /// Where the next round of looks, and of readings, begins: whoever was put off comes first.
    scan_from: Id,
    read_from: Id,
    /// The numbers of such a round; kept, so that a tick allocates none.
    round: Vec<Id>,
}

impl Members {
    /// Takes one in.
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

    /// Gives a principal its process. Whoever counted it as a descendant does so no more.
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

    /// Takes one out.
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

    /// The group of a user.
    #[must_use]
    pub fn group_of_user(&self, uid: u32) -> Option<Id> {
        self.by_user.get(&uid).copied()
    }

    /// The automatic groups for that cgroup: one, or where users are told apart one for each.
    pub fn automatic<'m>(&'m self, directory: &'m Path) -> impl Iterator<Item = Id> + 'm {
        let of = move |member: &&Member| {
            member.is_automatic()
                && member.domain.as_ref().and_then(RootDomain::asked) == Some(directory)
        };
        self.by_id.values().filter(of).map(|member| member.id)
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

    /// The numbers of all in the order in which they are to be read; given back by
    /// [`end_round`](Members::end_round).
    pub(crate) fn begin_round(&mut self) -> Vec<Id> {
        let mut round = std::mem::take(&mut self.round);
        in_turn(&self.by_id, self.read_from, &mut round);
        round
    }

    /// The round is over; who was `put_off` first comes first in the next.
    pub(crate) fn end_round(&mut self, round: Vec<Id>, put_off: Option<Id>) {
        self.round = round;
        self.read_from = put_off.unwrap_or(0);
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_id.values_mut()
    }

    /// Asks for looks at the processes of those where that is due, at most `most`: the rest waits for
    /// the next tick.
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

    /// Takes over what was found of one of them. The owner, where its processes are others than before.
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

/// All numbers, from that one on, then those before it.
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
