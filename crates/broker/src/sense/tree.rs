//! The processes of one principal.

use crate::share::{Account, Held};
use plimsoll_kernel::process::{Memory, Process, Statm};
use plimsoll_kernel::{Error, Result};

/// What was found of one principal.
#[derive(Debug)]
pub struct Found {
    /// Processes that were not known, each with its descriptors, counted as the user's.
    pub new: Vec<(Process, Held)>,
    /// Processes that belong to other principals.
    pub excluded: Vec<i32>,
    /// Some that are there could not be had for now.
    pub missed: bool,
}

/// A process: its number and when it started, so that a number given to another is not mistaken.
pub type Instance = (i32, u64);

/// Processes of one principal that are followed; beyond them its use is underestimated.
pub(super) const MAX_PROCESSES: usize = 512;
/// An unchanged process is read whole again after so long (ns): its kinds of memory may have
/// changed under the same sum.
const WHOLE_READ_NS: u64 = 20_000_000_000;
/// A tree that did not change for a while is read again after an eighth of that while, at most this
/// (ns): idle principals cost next to nothing.
const LONGEST_REST_NS: u64 = 4_000_000_000;
/// Descendants are looked for at this interval (ns) while they change, backing off to the longest.
const SHORTEST_RESCAN_NS: u64 = 500_000_000;
const LONGEST_RESCAN_NS: u64 = 16_000_000_000;
/// Faults are counted anew after so long (ns), however often they are asked for.
const FAULTS_NS: u64 = 100_000_000;

/// What a principal holds, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Resident and anonymous.
    pub anon: u64,
    /// Resident and shared (tmpfs, shared anonymous), in the process that maps most of it: the
    /// processes of one principal mostly map the same.
    pub shmem: u64,
    /// The same, added up over all processes.
    pub shmem_sum: u64,
    /// In swap.
    pub swap: u64,
    /// Processes.
    pub processes: usize,
}

#[derive(Debug)]
struct Seen {
    process: Process,
    /// Its descriptors, counted as the user's; those of the root are the principal's.
    _descriptors: Option<Held>,
    statm: Statm,
    memory: Memory,
    read_at: u64,
}

impl Seen {
    fn new(process: Process, descriptors: Option<Held>) -> Seen {
        Seen {
            process,
            _descriptors: descriptors,
            statm: Statm::default(),
            memory: Memory::default(),
            read_at: 0,
        }
    }

    /// Reads the short file, and the long one only when the short one changed. 1.3 us when idle.
    fn read(&mut self, now: u64) -> Result<Memory> {
        let statm = self.process.memory_fast()?;
        // An exiting process shows nothing while the kernel still takes its memory apart (0.2 s a GiB
        // measured). Whoever reads 0 then sees those bytes as an outsider's that comes with a leap.
        if statm == Statm::default() && self.memory.resident() > 0 && self.process.alive() {
            return Ok(self.memory);
        }
        let stale = self.read_at == 0 || now.saturating_sub(self.read_at) > WHOLE_READ_NS;
        if stale || statm != self.statm {
            self.memory = self.process.memory()?;
            self.statm = statm;
            self.read_at = now;
        }
        Ok(self.memory)
    }
}

/// The process of a principal and its descendants, held open between ticks.
#[derive(Debug)]
pub struct Tree {
    /// The root first; it stays when it exits.
    seen: Vec<Seen>,
    /// Whose descriptors the descendants take.
    account: Account,
    interval: u64,
    rescan_at: u64,
    /// It is being looked for descendants now.
    scanning: bool,
    major_faults: u64,
    faults_before: u64,
    /// When they were counted, ns; 0 when they never were.
    faults_at: u64,
    last: Figures,
    read_at: u64,
    changed_at: u64,
}

impl Tree {
    /// Starts with the process of the principal, whose descriptors are counted already; those of
    /// its descendants are taken from `account`.
    #[must_use]
    pub fn new(root: Process, account: Account) -> Tree {
        let faults_before = root.faults().unwrap_or_default().major;
        Tree {
            seen: vec![Seen::new(root, None)],
            account,
            interval: SHORTEST_RESCAN_NS,
            rescan_at: 0,
            scanning: false,
            major_faults: 0,
            faults_before,
            faults_at: 0,
            last: Figures::default(),
            read_at: 0,
            changed_at: 0,
        }
    }

    /// The process of the principal.
    #[must_use]
    pub fn root(&self) -> &Process {
        &self.seen[0].process
    }

    /// All of them, the root first.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.seen.iter().map(|seen| &seen.process)
    }

    /// What they hold now; who exited meanwhile holds nothing. A tree that has been idle is read now
    /// and then only, unless `all` is asked for.
    pub fn read(&mut self, now: u64, all: bool) -> Figures {
        let rest = (now.saturating_sub(self.changed_at) / 8).min(LONGEST_REST_NS);
        if !all && now.saturating_sub(self.read_at) < rest {
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

    fn sum(&mut self, now: u64) -> Figures {
        let mut figures = Figures::default();
        for seen in &mut self.seen {
            let Ok(memory) = seen.read(now) else { continue };
            figures.anon = figures.anon.saturating_add(memory.anon);
            figures.shmem = figures.shmem.max(memory.shmem);
            figures.shmem_sum = figures.shmem_sum.saturating_add(memory.shmem);
            figures.swap = figures.swap.saturating_add(memory.swap);
            figures.processes += 1;
        }
        figures
    }

    /// What is to be looked at, when descendants should be looked for again: its processes, the root
    /// first. It is not due again before it was told what was found.
    pub fn due_scan(&mut self, now: u64) -> Option<Vec<Instance>> {
        if self.scanning || now < self.rescan_at {
            return None;
        }
        self.scanning = true;
        self.rescan_at = now.saturating_add(self.interval);
        let instance = |process: &Process| (process.pid(), process.start_time());
        Some(self.processes().map(instance).collect())
    }

    /// Takes over what was found. `is_other` says whether a process is a
    /// principal of its own. Where it could not be looked (no descriptor is left, say), all stays as it
    /// is until the next interval. Whether its processes are others than before.
    pub fn take_over(
        &mut self,
        found: Result<Found>,
        now: u64,
        is_other: &impl Fn(i32) -> bool,
    ) -> bool {
        self.scanning = false;
        let Ok(found) = found else { return false };
        let missed = found.missed;
        let changed = self.replace(found, is_other);
        self.interval = match changed || missed {
            true => SHORTEST_RESCAN_NS,
            false => (self.interval * 2).min(LONGEST_RESCAN_NS),
        };
        // Unless something changed meanwhile.
        if self.rescan_at != 0 {
            self.rescan_at = now.saturating_add(self.interval);
        }
        if changed {
            self.read_at = 0;
        }
        changed
    }

    /// Lets go of those who left, takes hold of those who came. Whether there were some.
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

    /// A process became a principal of its own: it is not counted here any more, and for what descends
    /// from it is looked soon.
    pub fn let_go(&mut self, pid: i32) {
        let (before, mut is_root) = (self.seen.len(), true);
        self.seen
            .retain(|seen| std::mem::take(&mut is_root) || seen.process.pid() != pid);
        if self.seen.len() != before {
            self.hurry();
        }
    }

    /// Whose descriptors its descendants take.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Something changed: it is read at the next tick, and descendants are looked for soon.
    pub fn hurry(&mut self) {
        self.read_at = 0;
        self.rescan_at = 0;
        self.interval = SHORTEST_RESCAN_NS;
    }

    /// Major faults since the principal was registered, of those that live; never fewer than told
    /// before, and counted a moment before `now` (ns) at the most.
    pub fn major_faults(&mut self, now: u64) -> u64 {
        if self.faults_at != 0 && now.saturating_sub(self.faults_at) < FAULTS_NS {
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

/// Takes hold of a process by number.
///
/// # Errors
/// [`Error::Gone`] when there is none, or the number does not fit.
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
        Users::new(0).get(7, 1).descriptors().clone()
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
        // Out of descriptors.
        assert!(tree.due_scan(1).is_some());
        tree.take_over(Err(Error::Gone { pid: 1 }), 1, &|_| true);
        assert_eq!(pids(&tree), both);
        assert!(tree.due_scan(interval).is_none() && tree.due_scan(1 + interval).is_some());
        // Everybody is somebody else's.
        let found = Found {
            new: Vec::new(),
            excluded: both.to_vec(),
            missed: false,
        };
        tree.take_over(Ok(found), 2, &|_| true);
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
        assert!(tree.take_over(Ok(found(&children[..3])), 1, &|_| false));
        assert_eq!(tree.processes().count(), 3);
        assert!(!tree.take_over(Ok(found(&children[..3])), 2, &|_| false));
        assert_eq!(
            account.held(),
            2 * PROCESS,
            "of those known nothing is taken twice"
        );
        tree.hurry();
        assert!(tree.due_scan(3).is_some());
        // What happens while it is looked at is not forgotten.
        tree.hurry();
        tree.take_over(Ok(found(&[])), 4, &|_| false);
        assert!(tree.due_scan(5).is_some());
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
        let first = tree.major_faults(1);
        tree.major_faults = first + 1000;
        assert_eq!(tree.major_faults(FAULTS_NS), first + 1000);
        assert_eq!(tree.faults_at, 1);
        assert!(tree.major_faults(1 + FAULTS_NS) >= first + 1000);
        assert_eq!(tree.faults_at, 1 + FAULTS_NS);
    }
}
