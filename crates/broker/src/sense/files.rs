//! The accounts of pages of files. A file window tells what a process uses of each file;
//! `policy::ownership::files` computes from that what is in use and what each principal pays. Where several
//! principals use a file, the epochs of shared memory measure how often each one does.

use super::file_window::FileKey;
use super::samples::{Probe, Probes, Subject, probes_of};
use plimsoll_policy::ownership::Portion;
use plimsoll_policy::ownership::files::{User, divide, strangers};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;
use std::collections::{BTreeMap, HashMap};

/// The accounts of files. Belongs to the sampling thread.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The users of each file, and the largest part of it that a process has resident.
    users: BTreeMap<FileKey, (Bytes, Vec<User>)>,
    /// The memory that each principal pays.
    pays: HashMap<Id, Bytes>,
}

impl Files {
    /// Takes in the last windows of all processes.
    pub(super) fn gather(&mut self, subjects: &[Subject], probes: &mut Probes) {
        let mut known: BTreeMap<FileKey, u32> = BTreeMap::new();
        for key in probes.values().flat_map(|probe| probe.files.uses.keys()) {
            *known.entry(*key).or_default() += 1;
        }
        for probe in probes.values_mut() {
            for (key, used) in &mut probe.files.uses {
                let known = known.get(key).copied().unwrap_or_default();
                let beside = strangers(used.resident, used.proportional, known);
                used.strangers.get_or_insert(beside);
            }
        }
        self.users.clear();
        for subject in subjects {
            for probe in probes_of(subject, probes) {
                self.add(subject.id, probe);
            }
        }
        let uses = |user: &User| user.uses > Bytes::ZERO;
        self.users.retain(|_, (_, users)| users.iter().any(uses));
    }

    fn add(&mut self, principal: Id, probe: &Probe) {
        for (key, used) in &probe.files.uses {
            let (resident, users) = self.users.entry(*key).or_default();
            *resident = used.resident.max(*resident);
            let strangers = used.strangers.unwrap_or(0.0);
            match users.iter_mut().find(|user| user.principal == principal) {
                Some(user) => {
                    user.processes += 1;
                    user.uses = user.uses.max(used.uses);
                    user.strangers = user.strangers.min(strangers);
                }
                None => users.push(User {
                    principal,
                    processes: 1,
                    uses: used.uses,
                    strangers,
                    pays: Bytes::ZERO,
                }),
            }
        }
    }

    /// The size of a file that several principals use, as far as it is resident.
    pub(super) fn divided(&self, key: &FileKey) -> Option<Bytes> {
        let (resident, users) = self.users.get(key)?;
        let several = users.iter().filter(|user| user.uses > Bytes::ZERO).count() > 1;
        several.then_some(*resident)
    }

    /// The principals that use a file beside others.
    pub(super) fn sharers(&self) -> impl Iterator<Item = Id> + '_ {
        let divided = self
            .users
            .iter()
            .filter(|(key, _)| self.divided(key).is_some());
        divided.flat_map(|(_, (_, users))| users.iter().map(|user| user.principal))
    }

    /// Whether anybody uses this file.
    pub(super) fn is_used(&self, key: &FileKey) -> bool {
        self.users.contains_key(key)
    }

    /// Computes what each principal pays. `portions`: by the rates of access, if they were measured.
    pub(super) fn settle<'a>(&mut self, portions: impl Fn(&FileKey) -> &'a [Portion]) {
        self.pays.clear();
        for (key, (_, users)) in &mut self.users {
            divide(users, portions(key));
            for user in users {
                *self.pays.entry(user.principal).or_default() += user.pays;
            }
        }
    }

    /// Pages of files that a principal pays.
    pub(super) fn pays(&self, id: Id) -> Bytes {
        self.pays.get(&id).copied().unwrap_or_default()
    }
}
