//! The processes of one principal.

use crate::server::descriptors::PROCESS;
use crate::server::share::{Account, Held};
use plimsoll_kernel::process::{Memory, Process, Statm, descendants};
use plimsoll_kernel::{Error, Result};

/// Processes of one principal that are followed; beyond them its use is underestimated.
const MAX_PROCESSES: usize = 512;
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
    major_faults: u64,
    faults_before: u64,
    /// When they were counted, ns; 0 when they never were.
    faults_at: u64,
    last: Figures,
    read_at: u64,
    changed_at: u64,
}

impl Tree {
    /// Starts with the process of the principal, whose descriptors are counted already; those of its descendants are
    /// taken from `account`.
    #[must_use]
    pub fn new(root: Process, account: Account) -> Tree {
        let faults_before = root.faults().unwrap_or_default().major;
        Tree {
            seen: vec![Seen::new(root, None)],
            account,
            interval: SHORTEST_RESCAN_NS,
            rescan_at: 0,
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

    /// Whether descendants should be looked for again.
    #[must_use]
    pub fn rescan_due(&self, now: u64) -> bool {
        now >= self.rescan_at
    }

    /// Looks for descendants. `is_other` says whether a process is a principal of its own: it and
    /// what descends from it are left out.
    pub fn rescan(&mut self, now: u64, is_other: impl Fn(i32) -> bool) {
        let found = self.find(&is_other);
        self.take_over(found, now, &is_other);
    }

    /// Where it could not be looked (no descriptor is left, say), all stays as it is until the next interval.
    fn take_over(&mut self, found: Result<Found>, now: u64, is_other: &impl Fn(i32) -> bool) {
        if let Ok(found) = found {
            self.interval = match self.replace(&found, is_other) {
                true => SHORTEST_RESCAN_NS,
                false => (self.interval * 2).min(LONGEST_RESCAN_NS),
            };
        }
        self.rescan_at = now.saturating_add(self.interval);
    }

    /// Lets go of those who left, takes hold of those who came. Whether to look again soon: there were some.
    fn replace(&mut self, found: &Found, is_other: &impl Fn(i32) -> bool) -> bool {
        let before = self.seen.len();
        let mut is_root = true;
        self.seen.retain(|seen| {
            let pid = seen.process.pid();
            std::mem::take(&mut is_root)
                || seen.process.alive() && !found.excluded.contains(&pid) && !is_other(pid)
        });
        let mut changed = self.seen.len() != before;
        for &pid in &found.pids {
            if self.seen.len() >= MAX_PROCESSES {
                break;
            }
            if self.seen.iter().any(|seen| seen.process.pid() == pid) {
                continue;
            }
            // Whoever holds as many as it may is underestimated.
            let Some(descriptors) = self.account.take(PROCESS) else {
                break;
            };
            match Process::open(pid) {
                Ok(process) => {
                    self.seen.push(Seen::new(process, Some(descriptors)));
                    changed = true;
                }
                // It is there, and could not be had for now.
                Err(Error::Io { .. } | Error::Call { .. }) => changed = true,
                Err(_) => {}
            }
        }
        changed
    }

    fn find(&self, is_other: &impl Fn(i32) -> bool) -> Result<Found> {
        let root = self.root().pid();
        let mut pids = Vec::new();
        descendants(root, MAX_PROCESSES, &mut pids)?;
        // Orphans of a member that exited hang under another parent now; they stay members.
        for seen in &self.seen[1..] {
            let pid = seen.process.pid();
            if pids.len() < MAX_PROCESSES && !pids.contains(&pid) && seen.process.alive() {
                pids.push(pid);
                descendants(pid, MAX_PROCESSES - pids.len(), &mut pids)?;
            }
        }
        let mut excluded: Vec<i32> = pids.iter().copied().filter(|&pid| is_other(pid)).collect();
        for index in 0..excluded.len() {
            descendants(excluded[index], MAX_PROCESSES, &mut excluded)?;
        }
        pids.retain(|pid| *pid != root && !excluded.contains(pid));
        pids.sort_unstable();
        pids.dedup();
        Ok(Found { pids, excluded })
    }

    /// Something changed: it is read, and descendants are looked for, at the next tick.
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

struct Found {
    pids: Vec<i32>,
    excluded: Vec<i32>,
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
    use crate::server::users::Users;
    use std::process::{Command, Stdio};

    fn tree(root: Process) -> Tree {
        Tree::new(root, Users::new(0).get(7, 1).descriptors().clone())
    }

    #[test]
    fn children_are_counted_until_they_are_principals_of_their_own() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let mut tree = tree(Process::own().unwrap());
        tree.rescan(1, |_| false);
        assert!(tree.processes().any(|process| process.pid() == pid));
        tree.rescan(2, |other| other == pid);
        assert!(tree.processes().all(|process| process.pid() != pid));
        assert!(tree.read(3, true).anon > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_idle_tree_is_looked_at_less_and_less() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut tree = tree(open(child.id()).unwrap());
        let mut now = 1;
        let mut scans = 0;
        while now < 100_000_000_000 {
            if tree.rescan_due(now) {
                tree.rescan(now, |_| false);
                scans += 1;
            }
            now += 500_000_000;
        }
        assert!(scans < 15, "{scans}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!tree.alive());
        assert_eq!(tree.read(now, true).processes, 0);
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
        tree.take_over(Err(Error::Gone { pid: 1 }), 1, &|_| true);
        assert_eq!(pids(&tree), both);
        assert!(!tree.rescan_due(interval) && tree.rescan_due(1 + interval));
        // Everybody is somebody else's.
        let found = Found {
            pids: Vec::new(),
            excluded: both.to_vec(),
        };
        tree.take_over(Ok(found), 2, &|_| true);
        assert_eq!(pids(&tree), both[..1]);
        tree.rescan(3, |_| false);
        assert_eq!(tree.root().pid(), both[0]);
        assert!(!tree.alive());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn descendants_take_their_users_descriptors_and_no_more() {
        let user = Users::new(0).get(7, 1);
        let account = user.descriptors();
        let mut children: Vec<_> = (0..3)
            .map(|_| Command::new("sleep").arg("60").spawn().unwrap())
            .collect();
        let mut tree = Tree::new(Process::own().unwrap(), account.clone());
        tree.rescan(1, |_| false);
        let followed = tree.processes().count() - 1;
        assert!(followed >= 3);
        assert_eq!(account.held(), followed * PROCESS);
        // Others of this process's children may come and go meanwhile.
        let mut rest = account.nothing();
        rest.resize_anyway(1 << 30);
        let mut poor = Tree::new(Process::own().unwrap(), account.clone());
        poor.rescan(1, |_| false);
        assert_eq!(poor.processes().count(), 1);
        drop((tree, rest));
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
