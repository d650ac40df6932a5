//! The daemon's data of each principal.
//!
//! | module | is |
//! |---|---|
//! | `member` | one principal |
//! | `owner` | the user and the connection that it belongs to |
//! | `memory` | its processes, and what was read and sampled of them |

mod member;
mod memory;
mod owner;

pub use member::Member;
pub use memory::Memory;
pub use owner::Owner;

use crate::sense::{Found, Request, RootDomain, Scanner, Tree};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

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
        if let Some(uid) = member.owner.tenant {
            self.by_user.insert(uid, member.id);
        }
        self.by_id.insert(member.id, member);
    }

    /// Gives a principal its process. A principal that counted it as a descendant lets it go.
    pub fn attach(&mut self, id: Id, tree: Tree) {
        let pid = tree.root().pid();
        for other in self.by_id.values_mut() {
            if let Some(tree) = &mut other.memory.tree {
                tree.let_go(pid);
            }
        }
        self.by_pid.insert(pid, id);
        self.pids = None;
        if let Some(member) = self.by_id.get_mut(&id) {
            member.memory.tree = Some(tree);
        }
    }

    /// Removes a principal.
    pub fn remove(&mut self, id: Id) -> Option<Member> {
        let member = self.by_id.remove(&id)?;
        if let Some(pid) = member.pid().filter(|pid| self.by_pid.get(pid) == Some(&id)) {
            self.by_pid.remove(&pid);
            self.pids = None;
        }
        if let Some(uid) = member.owner.tenant {
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
            .memory
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
            .filter(|member| member.owner.uid == uid && !member.is_automatic())
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
    pub fn ask_scans(&mut self, scanner: &Scanner, now: Nanos, most: usize) {
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
                .and_then(|member| Some((member.owner.uid, member.memory.tree.as_mut()?)));
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
        now: Nanos,
    ) -> Option<u32> {
        let uid = self.by_id.get(&id)?.owner.uid;
        let Members { by_id, by_pid, .. } = self;
        let tree = by_id.get_mut(&id)?.memory.tree.as_mut()?;
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
