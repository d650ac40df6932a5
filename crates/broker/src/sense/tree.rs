//! The processes of one principal.

use crate::user_quota::{Account, Held};
use plimsoll_kernel::process::{Memory, Process, Statm};
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::{Bytes, Nanos};

/// Result of a search for one principal's descendants.
#[derive(Debug)]
pub struct Found {
    /// New processes, each with its descriptors, counted against the user.
    pub new: Vec<(Process, Held)>,
    /// Processes that belong to other principals.
    pub excluded: Vec<i32>,
    /// Whether some existing processes could not be opened at present.
    pub missed: bool,
}

/// A process: process id and start time, so that a reused process id is detected.
pub type Instance = (i32, u64);

/// Most processes of one principal that are followed; with more, its use is underestimated.
pub(super) const MAX_PROCESSES: usize = 512;
/// An unchanged process is read in full again after this time: the kinds of its memory may
/// have changed while the sum did not.
const WHOLE_READ: Nanos = Nanos::seconds(20);
/// The same of one whose memory changes. Between two full reads the short file tells its anonymous
/// memory, and the figure of its swap is as old.
const WHOLE_READ_OF_BUSY: Nanos = Nanos::millis(100);
/// A tree unchanged for a while is read again after an eighth of that while, at most this, so
/// idle principals cost almost nothing.
const LONGEST_REST: Nanos = Nanos::seconds(4);
/// Interval of the search for descendants while they change; it backs off to the longest.
const SHORTEST_RESCAN: Nanos = Nanos::millis(500);
const LONGEST_RESCAN: Nanos = Nanos::seconds(16);
/// Faults are counted again after this time at the earliest, however often they are asked for.
const FAULTS: Nanos = Nanos::millis(100);

/// Memory of a principal, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Resident anonymous memory.
    pub anon: Bytes,
    /// Resident shared memory (tmpfs, shared anonymous) of the process that maps most of it: the
    /// processes of one principal mostly map the same memory.
    pub shmem: Bytes,
    /// Resident shared memory summed over all processes.
    pub shmem_sum: Bytes,
    /// Resident pages of files, summed over all processes.
    pub file_sum: Bytes,
    /// Memory in swap.
    pub swap: Bytes,
    /// Number of processes.
    pub processes: usize,
}

/// One process.
#[derive(Debug)]
struct Seen {
    process: Process,
    /// Its descriptors, counted against the user; those of the root belong to the principal.
    _descriptors: Option<Held>,
    /// The short file (`statm`) as of the last full read.
    statm: Statm,
    /// The process's memory as of the last full read, with the anonymous memory of the last read.
    memory: Memory,
    /// Time of the last full read; 0 before the first.
    read_at: Nanos,
}

impl Seen {
    fn new(process: Process, descriptors: Option<Held>) -> Seen {
        Seen {
            process,
            _descriptors: descriptors,
            statm: Statm::default(),
            memory: Memory::default(),
            read_at: Nanos::ZERO,
        }
    }

    /// Reads the short file, and the long one only when the short one changed: at once where its shared
    /// memory did. Takes 1.3 us otherwise.
    fn read(&mut self, now: Nanos) -> Result<Memory> {
        let statm = self.process.memory_fast()?;
        // An exiting process shows no memory while the kernel still frees it (0.2 s per GiB
        // measured). Reading 0 would make those bytes look like a sudden growth of outsiders.
        if statm == Statm::default() && self.memory.resident() > Bytes::ZERO && self.process.alive()
        {
            return Ok(self.memory);
        }
        let age = now - self.read_at;
        let changed = statm != self.statm && age >= WHOLE_READ_OF_BUSY;
        let stale = self.read_at == Nanos::ZERO || age > WHOLE_READ;
        if !stale && !changed && statm.shared == self.statm.shared {
            self.memory.anon = statm.anon();
        } else {
            self.memory = self.process.memory()?;
            self.statm = statm;
            self.read_at = now;
        }
        Ok(self.memory)
    }
}

/// The process of a principal and its descendants, held open between ticks. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Tree {
    /// The processes, the root first; the root stays after it exits.
    seen: Vec<Seen>,
    /// Account for the descriptors of the descendants.
    account: Account,
    /// Current interval of the search for descendants.
    interval: Nanos,
    /// Time of the next search.
    rescan_at: Nanos,
    /// A search for its descendants is in progress.
    scanning: bool,
    /// Major faults since the principal was registered; never lower than before.
    major_faults: u64,
    /// Major faults of the root before that.
    faults_before: u64,
    /// Time when faults were counted; 0 before the first time.
    faults_at: Nanos,
    /// Figures of the last read.
    last: Figures,
    /// Time of the last read.
    read_at: Nanos,
    /// Time of the last change of the figures.
    changed_at: Nanos,
}

impl Tree {
    /// Starts with the process of the principal, whose descriptors are counted already. Descriptors
    /// of its descendants are taken from `account`.
    #[must_use]
    pub fn new(root: Process, account: Account) -> Tree {
        let faults_before = root.faults().unwrap_or_default().major;
        Tree {
            seen: vec![Seen::new(root, None)],
            account,
            interval: SHORTEST_RESCAN,
            rescan_at: Nanos::ZERO,
            scanning: false,
            major_faults: 0,
            faults_before,
            faults_at: Nanos::ZERO,
            last: Figures::default(),
            read_at: Nanos::ZERO,
            changed_at: Nanos::ZERO,
        }
    }

    /// The process of the principal.
    #[must_use]
    pub fn root(&self) -> &Process {
        &self.seen[0].process
    }

    /// All processes, the root first.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.seen.iter().map(|seen| &seen.process)
    }

    /// Reads their memory; an exited process has none. A tree that has been idle is read only now
    /// and then, unless `all` is set.
    pub fn read(&mut self, now: Nanos, all: bool) -> Figures {
        let rest = ((now - self.changed_at) / 8).min(LONGEST_REST);
        if !all && now - self.read_at < rest {
            return self.last;
        }
        let figures = self.sum(now);
        if figures != self.last {
            self.changed_at = now;
        }
        self.last = figures;
        self.read_at = now;
        figures
    }

    /// Time of the last read.
    #[must_use]
    pub fn read_at(&self) -> Nanos {
        self.read_at
    }

    fn sum(&mut self, now: Nanos) -> Figures {
        let mut figures = Figures::default();
        for seen in &mut self.seen {
            let Ok(memory) = seen.read(now) else { continue };
            figures.anon += memory.anon;
            figures.shmem = figures.shmem.max(memory.shmem);
            figures.shmem_sum += memory.shmem;
            figures.file_sum += memory.file;
            figures.swap += memory.swap;
            figures.processes += 1;
        }
        figures
    }

    /// The known processes, the root first, if a search for descendants is due. It is not due again
    /// before the result was taken over.
    pub fn due_scan(&mut self, now: Nanos) -> Option<Vec<Instance>> {
        if self.scanning || now < self.rescan_at {
            return None;
        }
        self.scanning = true;
        self.rescan_at = now + self.interval;
        let instance = |process: &Process| (process.pid(), process.start_time());
        Some(self.processes().map(instance).collect())
    }

    /// Takes over a result. `is_other` says whether a process is a principal itself. If the search
    /// failed (no free descriptor, for example), everything stays until the next interval. Returns
    /// whether the set of processes changed.
    pub fn take_over(
        &mut self,
        found: Result<Found>,
        now: Nanos,
        is_other: &impl Fn(i32) -> bool,
    ) -> bool {
        self.scanning = false;
        let Ok(found) = found else { return false };
        let missed = found.missed;
        let changed = self.replace(found, is_other);
        self.interval = if changed || missed {
            SHORTEST_RESCAN
        } else {
            (self.interval * 2).min(LONGEST_RESCAN)
        };
        // Unless a change was reported meanwhile.
        if self.rescan_at != Nanos::ZERO {
            self.rescan_at = now + self.interval;
        }
        if changed {
            self.read_at = Nanos::ZERO;
        }
        changed
    }

    /// Drops processes that left and adds new ones. Returns whether there were any.
    fn replace(&mut self, found: Found, is_other: &impl Fn(i32) -> bool) -> bool {
        let before = self.seen.len();
        let mut is_root = true;
        self.seen.retain(|seen| {
            let pid = seen.process.pid();
            std::mem::take(&mut is_root)
                || seen.process.alive() && !found.excluded.contains(&pid) && !is_other(pid)
        });
        let left = self.seen.len() != before;
        let room = MAX_PROCESSES.saturating_sub(self.seen.len());
        let own: Vec<i32> = self.processes().map(Process::pid).collect();
        let new = found.new.into_iter().filter(|(process, _)| {
            let pid = process.pid();
            !own.contains(&pid) && !is_other(pid) && process.alive()
        });
        let kept = self.seen.len();
        let seen = |(process, descriptors)| Seen::new(process, Some(descriptors));
        self.seen.extend(new.take(room).map(seen));
        left || self.seen.len() != kept
    }

    /// A process became a principal itself: it no longer counts here, and a search for its
    /// descendants is due soon.
    pub fn let_go(&mut self, pid: i32) {
        let (before, mut is_root) = (self.seen.len(), true);
        self.seen
            .retain(|seen| std::mem::take(&mut is_root) || seen.process.pid() != pid);
        if self.seen.len() != before {
            self.hurry();
        }
    }

    /// Account for the descriptors of its descendants.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Notes a change: the next tick reads the tree, and a search for descendants is due soon.
    pub fn hurry(&mut self) {
        self.read_at = Nanos::ZERO;
        self.rescan_at = Nanos::ZERO;
        self.interval = SHORTEST_RESCAN;
    }

    /// Major faults of the live processes since the principal was registered. The value never
    /// falls, and was counted at most `FAULTS` before `now`.
    pub fn major_faults(&mut self, now: Nanos) -> u64 {
        if self.faults_at != Nanos::ZERO && now - self.faults_at < FAULTS {
            return self.major_faults;
        }
        self.faults_at = now;
        let counted: u64 = self
            .processes()
            .map(|process| process.faults().unwrap_or_default().major)
            .sum();
        self.major_faults = self
            .major_faults
            .max(counted.saturating_sub(self.faults_before));
        self.major_faults
    }

    /// Whether the process of the principal still runs.
    #[must_use]
    pub fn alive(&self) -> bool {
        self.root().alive()
    }
}

/// Opens a process by id.
///
/// # Errors
/// [`Error::Gone`] when there is none, or the id is out of range.
pub fn open(pid: u32) -> Result<Process> {
    let pid = i32::try_from(pid).map_err(|_| Error::Gone { pid: -1 })?;
    Process::open(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::PROCESS;
    use crate::server::users::Users;
    use std::process::Command;

    fn account() -> Account {
        Users::new(0).get(7, Nanos(1)).descriptors().clone()
    }

    fn tree(root: Process) -> Tree {
        Tree::new(root, account())
    }

    #[test]
    fn the_root_stays_whatever_is_found_and_what_cannot_be_found_changes_nothing() {
        let start = || Command::new("sleep").arg("60").spawn().unwrap();
        let (mut child, mut other) = (start(), start());
        let mut tree = tree(open(child.id()).unwrap());
        tree.seen.push(Seen::new(open(other.id()).unwrap(), None));
        let interval = tree.interval;
        let pids = |tree: &Tree| tree.processes().map(Process::pid).collect::<Vec<_>>();
        let both = [child.id() as i32, other.id() as i32];
        child.kill().unwrap();
        child.wait().unwrap();
        // No descriptor was free.
        assert!(tree.due_scan(Nanos(1)).is_some());
        tree.take_over(Err(Error::Gone { pid: 1 }), Nanos(1), &|_| true);
        assert_eq!(pids(&tree), both);
        assert!(tree.due_scan(interval).is_none() && tree.due_scan(Nanos(1) + interval).is_some());
        // All processes belong to other principals.
        let found = Found {
            new: Vec::new(),
            excluded: both.to_vec(),
            missed: false,
        };
        tree.take_over(Ok(found), Nanos(2), &|_| true);
        assert_eq!(pids(&tree), both[..1]);
        assert!(!tree.alive());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn descendants_take_their_users_descriptors() {
        let start = || Command::new("sleep").arg("60").spawn().unwrap();
        let mut children: Vec<_> = (0..4).map(|_| start()).collect();
        let account = account();
        let mut tree = Tree::new(open(children[0].id()).unwrap(), account.clone());
        let found = |children: &[std::process::Child]| Found {
            new: children
                .iter()
                .map(|child| {
                    let descriptors = account.take(PROCESS).unwrap();
                    (open(child.id()).unwrap(), descriptors)
                })
                .collect(),
            excluded: Vec::new(),
            missed: false,
        };
        assert!(tree.take_over(Ok(found(&children[..3])), Nanos(1), &|_| false));
        assert_eq!(tree.processes().count(), 3);
        assert!(!tree.take_over(Ok(found(&children[..3])), Nanos(2), &|_| false));
        assert_eq!(
            account.held(),
            2 * PROCESS,
            "of those known nothing is taken twice"
        );
        tree.hurry();
        assert!(tree.due_scan(Nanos(3)).is_some());
        // A change during a search is not lost.
        tree.hurry();
        tree.take_over(Ok(found(&[])), Nanos(4), &|_| false);
        assert!(tree.due_scan(Nanos(5)).is_some());
        drop(tree);
        assert_eq!(account.held(), 0);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn faults_are_not_counted_at_each_question() {
        let mut tree = tree(Process::own().unwrap());
        tree.faults_before = 0;
        let first = tree.major_faults(Nanos(1));
        tree.major_faults = first + 1000;
        assert_eq!(tree.major_faults(FAULTS), first + 1000);
        assert_eq!(tree.faults_at, Nanos(1));
        assert!(tree.major_faults(Nanos(1) + FAULTS) >= first + 1000);
        assert_eq!(tree.faults_at, Nanos(1) + FAULTS);
    }
}
