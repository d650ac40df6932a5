//! How much may be held in our own domain and in the groups of the programs.

use super::scan::Gather;
use crate::allowance::{Allowance, Bound, Margins};
use crate::error::PinError;
use crate::locked_files::Holder;
use crate::options::Options;
use crate::refaults::Evidence;
use crate::report::{Group, State};
use plimsoll_kernel::Error;
use plimsoll_kernel::pin::lockable;
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The time between two readings of the margins of the programs' groups: there may be many groups.
const GROUPS_EVERY: Nanos = Nanos::millis(100);

/// A group of the programs and what may be held in it.
#[derive(Debug)]
struct Domain {
    dir: PathBuf,
    allowance: Allowance,
    /// Why its memory could not be read.
    reason: Option<String>,
    /// Held in it.
    held: Bytes,
}

impl Domain {
    /// A group and its margin, as it was read.
    fn of(dir: PathBuf, read: Result<Option<Allowance>, Error>, held: Bytes) -> Domain {
        let (allowance, reason) = match read {
            Ok(Some(allowance)) => (allowance, None),
            Ok(None) => (Allowance::none(Bound::Unwatched), None),
            Err(error) => (Allowance::none(Bound::Unreadable), Some(error.to_string())),
        };
        Domain {
            dir,
            allowance,
            reason,
            held,
        }
    }
}

/// Our own domain, and the groups of the programs. The allowances are those of the last reading.
#[derive(Debug)]
pub(super) struct Domains {
    options: Options,
    margins: Margins,
    /// Memory of our own domain.
    capacity: Bytes,
    /// The most that is ever held.
    budget: Bytes,
    /// The allowance for everything together.
    own: Allowance,
    groups: Vec<Domain>,
    of_file: BTreeMap<FileKey, usize>,
    /// There are more groups than are watched: nothing is held in the others.
    full: bool,
    /// A program is in no group: its files may be held even if every group refuses.
    ungrouped: bool,
    /// When the groups' margins are read next, monotonic.
    groups_at: Nanos,
}

impl Domains {
    /// Begins with our own domain, and without groups.
    pub(super) fn new(options: Options) -> Result<Domains, PinError> {
        let mut domains = Domains {
            options,
            margins: Margins::new()?,
            capacity: Bytes::ZERO,
            budget: Bytes::ZERO,
            own: Allowance::none(Bound::Budget),
            groups: Vec::new(),
            of_file: BTreeMap::new(),
            full: false,
            ungrouped: false,
            groups_at: Nanos::ZERO,
        };
        domains.read_own(Bytes::ZERO)?;
        Ok(domains)
    }

    /// Memory of our own domain.
    pub(super) fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// The most that is ever held.
    pub(super) fn budget(&self) -> Bytes {
        self.budget
    }

    /// The allowance for everything together.
    pub(super) fn own(&self) -> Allowance {
        self.own
    }

    /// The allowance of each group's files.
    pub(super) fn allowances(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.groups.iter().map(|group| group.allowance.bytes)
    }

    /// The group that a file belongs to.
    pub(super) fn group_of(&self, key: &FileKey) -> Option<usize> {
        self.of_file.get(key).copied()
    }

    /// The files of a group.
    pub(super) fn files_of(&self, group: usize) -> Vec<FileKey> {
        let of_it = self.of_file.iter().filter(|(_, of)| **of == group);
        of_it.map(|(key, _)| *key).collect()
    }

    /// Reads the margins of our own domain, where so much is held.
    pub(super) fn read_own(&mut self, held: Bytes) -> Result<(), PinError> {
        let options = self.options;
        let budget = |capacity| options.budget(capacity);
        let (capacity, allowance) = self.margins.own(budget, held, options.without_swap)?;
        self.capacity = capacity;
        self.budget = options.budget(capacity);
        self.own = match lock_limit(held) {
            Some(bytes) if bytes < allowance.bytes => Allowance {
                bytes,
                bound: Bound::LockLimit,
            },
            _ => allowance,
        };
        Ok(())
    }

    /// Whether the margins of groups are to be read now; then not again for a while.
    pub(super) fn groups_are_due(&mut self, now: Nanos) -> bool {
        let due = now >= self.groups_at;
        if due {
            self.groups_at = now + GROUPS_EVERY;
        }
        due
    }

    /// Reads the margin of a group, where so much is held; returns how much may be. `None` where the group is
    /// gone: it has no program any more, and the next round finds out.
    pub(super) fn read_group(&mut self, group: usize, held: Bytes) -> Option<Bytes> {
        let dir = self.groups.get(group)?.dir.clone();
        let force = self.options.without_swap;
        let read = self.margins.group(&dir, self.budget, held, force);
        if read.as_ref().is_err_and(|error| error.is_absent()) {
            return None;
        }
        self.groups[group] = Domain::of(dir, read, held);
        Some(self.groups[group].allowance.bytes)
    }

    /// How much is held of each group's files.
    pub(super) fn held_of_groups(&self, holder: &Holder) -> Vec<Bytes> {
        let mut held = vec![Bytes::ZERO; self.groups.len()];
        for (key, set) in holder.files() {
            let group = self.group_of(key);
            if let Some(bytes) = group.and_then(|group| held.get_mut(group)) {
                *bytes += Bytes(page_size()) * set.pages();
            }
        }
        held
    }

    /// Finds the groups of the programs, and of each file the group that may have least held.
    pub(super) fn find(&mut self, gather: &Gather, evidence: &Evidence, holder: &Holder) {
        let before = self.groups.iter().map(|group| group.dir.clone());
        let held: BTreeMap<PathBuf, Bytes> = before.zip(self.held_of_groups(holder)).collect();
        let dirs = gather.groups();
        self.full = !self.margins.watch(dirs.iter().copied());
        self.groups.clear();
        for dir in dirs {
            let bytes = held.get(dir).copied().unwrap_or_default();
            let force = self.options.without_swap;
            let read = self.margins.group(dir, self.budget, bytes, force);
            self.groups.push(Domain::of(dir.into(), read, bytes));
        }
        self.ungrouped = gather.has_ungrouped();
        self.of_file.clear();
        let groups = &self.groups;
        for (key, file) in evidence.files() {
            let of = |pid| {
                let dir = gather.group_of(pid)?;
                groups.iter().position(|group| group.dir == dir)
            };
            let all = file.pids().into_iter().filter_map(of);
            if let Some(tightest) = all.min_by_key(|group| groups[*group].allowance.bytes) {
                self.of_file.insert(*key, tightest);
            }
        }
    }

    /// The state where so much is held.
    pub(super) fn state(&self, held: Bytes) -> State {
        let refuses = |allowance: Allowance| allowance.bound == Bound::NoSwap;
        let bars = |allowance: Allowance| allowance.bytes == Bytes::ZERO;
        if refuses(self.own) || self.is_so_of_all(refuses) {
            State::Refused
        } else if bars(self.own) {
            State::Short
        } else if held > Bytes::ZERO {
            State::Holding
        } else if self.is_so_of_all(bars) {
            State::Short
        } else {
            State::Watching
        }
    }

    /// Whether all programs are in groups whose allowances are so.
    fn is_so_of_all(&self, is_so: impl Fn(Allowance) -> bool) -> bool {
        let mut groups = self.groups.iter();
        !self.ungrouped && !self.groups.is_empty() && groups.all(|group| is_so(group.allowance))
    }

    /// Whether there are more groups than are watched.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// How many groups there are, and how many of them are watched.
    pub(super) fn count(&self) -> (usize, usize) {
        let bound = |group: &&Domain| group.allowance.bound != Bound::Unwatched;
        (self.groups.len(), self.groups.iter().filter(bound).count())
    }

    /// The groups in which less than the budget may be held.
    pub(super) fn report(&self) -> Vec<Group> {
        let less = self
            .groups
            .iter()
            .filter(|group| group.allowance.bound != Bound::Budget);
        less.map(|group| Group {
            path: group.dir.display().to_string(),
            allowance: group.allowance.bytes.0,
            bound: group.allowance.bound,
            reason: group.reason.clone(),
            held: group.held.0,
        })
        .collect()
    }
}

/// How much this process may lock for pages, with those that are held; `None` if without bound.
fn lock_limit(held: Bytes) -> Option<Bytes> {
    let most = lockable()?;
    let locked = Process::own().and_then(|own| own.memory());
    let others = locked.map_or(Bytes::ZERO, |memory| memory.locked - held);
    Some(most - others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_groups_that_are_barred_a_program_without_a_group_is_watched() {
        let mut domains = Domains::new(Options::default()).unwrap();
        domains.own = Allowance {
            bytes: Bytes::mib(1),
            bound: Bound::Budget,
        };
        let mut state = |bound, ungrouped| {
            domains.groups = vec![Domain {
                dir: PathBuf::from("/a"),
                allowance: Allowance::none(bound),
                reason: None,
                held: Bytes::ZERO,
            }];
            domains.ungrouped = ungrouped;
            domains.state(Bytes::ZERO)
        };
        assert_eq!(state(Bound::NoSwap, false), State::Refused);
        assert_eq!(state(Bound::Unreadable, false), State::Short);
        assert_eq!(state(Bound::NoSwap, true), State::Watching);
        assert_eq!(state(Bound::Unreadable, true), State::Watching);
    }
}
