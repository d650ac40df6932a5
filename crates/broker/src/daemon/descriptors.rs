//! Counts the broker's descriptors of each principal against its user, and those for held file pages.

use super::Daemon;
use super::caller::Caller;
use crate::descriptors::{CGROUP, PRINCIPAL, PROCESS};
use crate::sense::RootDomain;
use crate::server::clients::no_descriptor;
use crate::user_quota::{Account, Held};
use plimsoll_kernel::cgroup::MAX_DEPTH;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Kind};
use plimsoll_wire::varlink::WireError;
use std::path::Path;

impl Daemon {
    /// Takes the descriptors of a new principal from a user's account.
    ///
    /// # Errors
    /// `TooMany` when the user already holds as many as it may.
    pub(super) fn descriptors_of(
        &mut self,
        uid: u32,
        kind: Kind,
        domain: Option<&RootDomain>,
        now: Nanos,
    ) -> Result<Held, WireError> {
        let user = self.serving.user(uid, now);
        let count = count(kind, domain.and_then(RootDomain::asked));
        let held = user.descriptors().take(count);
        held.ok_or_else(|| no_descriptor(uid, &user))
    }

    /// Takes those of a cgroup for a principal that has its process, beside those of the one that it has.
    ///
    /// # Errors
    /// As [`Daemon::descriptors_of`].
    pub(super) fn descriptors_of_cgroup(
        &mut self,
        id: Id,
        caller: &Caller,
    ) -> Result<(), WireError> {
        let Some(member) = self.members.get_mut(id) else {
            return Ok(());
        };
        let homes = 1 + usize::from(member.home.is_some());
        if member
            .descriptors
            .resize(PRINCIPAL + PROCESS + homes * CGROUP)
        {
            return Ok(());
        }
        let uid = member.owner.uid;
        Err(no_descriptor(uid, &self.serving.user(uid, caller.now)))
    }

    /// Gives back the descriptors that were taken for a cgroup, once the process is there and no
    /// cgroup was made for it.
    pub(super) fn release_unneeded(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        if member.kind == Kind::Process && member.memory.tree.is_some() && member.home.is_none() {
            member.descriptors.resize_anyway(PRINCIPAL + PROCESS);
        }
    }

    /// The account for the descriptors of the descendants of a principal's process.
    pub(super) fn account_of(&mut self, id: Id) -> Account {
        let uid = self
            .members
            .get(id)
            .map_or(self.settings.uid, |member| member.owner.uid);
        self.serving.user(uid, clock::now()).descriptors().clone()
    }
}

/// Number of descriptors of a principal. It includes those of a process, which may attach later,
/// and of the cgroup that may be made for it. The cgroup of a group needs some per level, because
/// each cgroup above it can bound it and may be read.
fn count(kind: Kind, domain: Option<&Path>) -> usize {
    let below = match (kind, domain) {
        (Kind::Process, _) => PROCESS + CGROUP,
        (Kind::Group, Some(directory)) => {
            1 + CGROUP * directory.components().count().min(MAX_DEPTH + 1)
        }
        (Kind::Group, None) => 0,
    };
    PRINCIPAL + below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_takes_what_it_may_come_to() {
        assert_eq!(count(Kind::Process, None), PRINCIPAL + PROCESS + CGROUP);
        assert_eq!(count(Kind::Group, None), PRINCIPAL);
        let deep = "/x".repeat(5000);
        let shallow = count(Kind::Group, Some(Path::new("/sys/fs/cgroup/a")));
        assert_eq!(shallow, PRINCIPAL + 1 + 5 * CGROUP);
        let most = PRINCIPAL + 1 + (MAX_DEPTH + 1) * CGROUP;
        assert_eq!(count(Kind::Group, Some(Path::new(&deep))), most);
    }
}
