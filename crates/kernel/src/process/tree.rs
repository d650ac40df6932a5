//! A process and all its descendants.

use super::{Faults, Memory, Process, proc_path};
use crate::parse::{number, words};
use crate::reader::read_text;
use crate::{Error, Result};

/// Longest list of children of one thread that is read, bytes.
const MAX_CHILDREN: usize = 1 << 20;

/// The most threads that are looked at on behalf of one program, [`descendants_where`].
const MAX_THREADS: usize = 65_536;

/// Longest `/proc/loadavg` that is read, bytes.
const MAX_LOAD: usize = 256;

/// Sums over a tree of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The memory of all, bytes.
    pub memory: Memory,
    /// The faults of the processes that run now.
    pub faults: Faults,
    /// How many processes were counted.
    pub processes: usize,
}

/// A process and its descendants, held open between walks so that a tick reads one file per process.
#[derive(Debug)]
pub struct Walk {
    root: Process,
    members: Vec<Process>,
    max: usize,
    truncated: bool,
}

impl Walk {
    /// Starts with a process; at most `max` descendants are followed.
    pub fn new(root: Process, max: usize) -> Walk {
        Walk {
            root,
            members: Vec::new(),
            max,
            truncated: false,
        }
    }

    /// The process at the top.
    pub fn root(&self) -> &Process {
        &self.root
    }

    /// Its descendants as of the last [`Walk::rescan`].
    pub fn members(&self) -> &[Process] {
        &self.members
    }

    /// Whether there were more than `max` descendants: the sums miss some.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Looks for new descendants and drops those that exited. Children of an exited descendant stay
    /// members. Call it about every second.
    ///
    /// # Errors
    /// [`Error::Gone`] when the root exited and no descendant is left.
    pub fn rescan(&mut self) -> Result<()> {
        self.members.retain(Process::alive);
        if self.members.is_empty() && !self.root.alive() {
            return Err(Error::Gone {
                pid: self.root.pid(),
            });
        }
        let mut found = Vec::new();
        self.truncated = false;
        // The number of a root that exited may belong to another process by now.
        if self.root.alive() {
            self.truncated = !descendants(self.root.pid(), self.max, &mut found)?;
        }
        // Orphans have another parent now, so look below each member that we hold.
        for index in 0..self.members.len() {
            if found.len() >= self.max {
                break;
            }
            let room = self.max - found.len();
            let complete = descendants(self.members[index].pid(), room, &mut found)?;
            self.truncated |= !complete;
        }
        for pid in found {
            let known = pid == self.root.pid() || self.members.iter().any(|m| m.pid() == pid);
            if known {
                continue;
            }
            if self.members.len() >= self.max {
                self.truncated = true;
                break;
            }
            match Process::open(pid) {
                Ok(process) => self.members.push(process),
                Err(e) if e.is_gone() || e.is_denied() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sums the memory of all, 7 us each. Those that exited meanwhile do not count.
    ///
    /// # Errors
    /// [`Error::Io`] when a file of `/proc` cannot be read for a reason other than an exit.
    pub fn totals(&self) -> Result<Totals> {
        let mut totals = Totals::default();
        for process in std::iter::once(&self.root).chain(&self.members) {
            let memory = match process.memory() {
                Err(e) if e.is_gone() || e.is_denied() => continue,
                other => other?,
            };
            let faults = process.faults().unwrap_or_default();
            totals.processes += 1;
            totals.memory.anon += memory.anon;
            totals.memory.file += memory.file;
            totals.memory.shmem += memory.shmem;
            totals.memory.swap += memory.swap;
            totals.memory.locked += memory.locked;
            totals.faults.minor = totals.faults.minor.saturating_add(faults.minor);
            totals.faults.major = totals.faults.major.saturating_add(faults.major);
        }
        Ok(totals)
    }
}

/// Appends the numbers of all descendants of a process, at most `max`; returns false when there
/// were more. Uses `/proc/PID/task/*/children` where the kernel has it, else the parents of all
/// processes.
///
/// # Errors
/// [`Error::Denied`], [`Error::Io`]; a root that exited has no descendants, which is no error.
pub fn descendants(root: i32, max: usize, out: &mut Vec<i32>) -> Result<bool> {
    let mut threads = usize::MAX;
    descendants_within(root, max, &mut threads, out)
}

/// As [`descendants`], for programs that are not trusted. A file is read for each thread, and a
/// process may have very many. Looks at up to `threads` threads and subtracts those looked at. Also
/// returns false if there were more.
///
/// # Errors
/// As [`descendants`].
pub fn descendants_within(
    root: i32,
    max: usize,
    threads: &mut usize,
    out: &mut Vec<i32>,
) -> Result<bool> {
    walk(root, max, threads, &mut |_| true, out)
}

/// All descendants, except those that `keep` rejects and the descendants of those. Looks at up to
/// 65536 threads.
///
/// # Errors
/// As [`descendants`]. On an error `out` holds what was found until then.
pub fn descendants_where(
    root: i32,
    max: usize,
    keep: &mut dyn FnMut(i32) -> bool,
    out: &mut Vec<i32>,
) -> Result<bool> {
    let mut threads = MAX_THREADS;
    walk(root, max, &mut threads, keep, out)
}

fn walk(
    root: i32,
    max: usize,
    threads: &mut usize,
    keep: &mut dyn FnMut(i32) -> bool,
    out: &mut Vec<i32>,
) -> Result<bool> {
    let start = out.len();
    let mut text = Vec::new();
    let listed = append_children(root, max, threads, &mut text, out);
    if let Ok(false) = listed {
        out.truncate(start);
        return by_parents(root, max, keep, out);
    }
    // Filter before returning an error too, because callers use what was found.
    retain_from(start, keep, out);
    listed?;
    let mut next = start;
    while next < out.len() && out.len() - start < max {
        let pid = out[next];
        next += 1;
        let new = out.len();
        let listed = append_children(pid, max - (new - start), threads, &mut text, out);
        retain_from(new, keep, out);
        listed?;
    }
    Ok(out.len() - start < max && *threads > 0)
}

/// Removes the entries from `start` on that `keep` rejects.
fn retain_from(start: usize, keep: &mut dyn FnMut(i32) -> bool, out: &mut Vec<i32>) {
    let new = out.split_off(start);
    out.extend(new.into_iter().filter(|&pid| keep(pid)));
}

/// Appends the children of a process. False if the kernel does not list children.
fn append_children(
    pid: i32,
    max: usize,
    threads: &mut usize,
    text: &mut Vec<u8>,
    out: &mut Vec<i32>,
) -> Result<bool> {
    if *threads == 0 {
        return Ok(true);
    }
    let Ok(tasks) = std::fs::read_dir(proc_path(pid, "task")) else {
        return Ok(true);
    };
    let limit = out.len() + max;
    for task in tasks.flatten() {
        if *threads == 0 {
            return Ok(true);
        }
        *threads -= 1;
        text.clear();
        match read_text(&task.path().join("children"), MAX_CHILDREN, text) {
            // The thread exited, or the kernel was built without such lists.
            Err(e) if e.is_absent() => {
                if task.path().exists() && proc_path(pid, "task").exists() {
                    return Ok(task.path().join("children").exists());
                }
                continue;
            }
            Err(e) if e.is_gone() => continue,
            other => other?,
        }
        for word in words(text.trim_ascii()) {
            if out.len() >= limit {
                return Ok(true);
            }
            out.extend(number(word).and_then(|n| i32::try_from(n).ok()));
        }
    }
    Ok(true)
}

/// The number that a new process or thread of our namespace got last (`proc.rst` 1.8, `loadavg`). While it
/// stays the same, no process has a child that it did not have before. `None` if it cannot be read.
pub fn newest() -> Option<u64> {
    let mut text = Vec::new();
    read_text(std::path::Path::new("/proc/loadavg"), MAX_LOAD, &mut text).ok()?;
    number(words(text.trim_ascii()).last()?)
}

/// The numbers of all processes that `/proc` shows us, in no order.
///
/// # Errors
/// [`Error::Io`] when `/proc` cannot be read.
pub fn numbers() -> Result<impl Iterator<Item = i32>> {
    let path = std::path::Path::new("/proc");
    let entries = std::fs::read_dir(path).map_err(|source| Error::Io {
        doing: "read",
        path: path.to_path_buf(),
        source,
    })?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// The slow way: every process's parent.
fn by_parents(
    root: i32,
    max: usize,
    keep: &mut dyn FnMut(i32) -> bool,
    out: &mut Vec<i32>,
) -> Result<bool> {
    let mut pairs = Vec::new();
    let mut text = Vec::new();
    for pid in numbers()? {
        text.clear();
        if read_text(&proc_path(pid, "stat"), 4096, &mut text).is_ok() {
            pairs.extend(super::parse_stat(&text).map(|stat| (stat.parent, pid)));
        }
    }
    pairs.sort_unstable();
    Ok(below(root, &pairs, max, keep, out))
}

/// All below `root` that are kept, given sorted pairs (parent, child).
fn below(
    root: i32,
    pairs: &[(i32, i32)],
    max: usize,
    keep: &mut dyn FnMut(i32) -> bool,
    out: &mut Vec<i32>,
) -> bool {
    let start = out.len();
    let mut parent = root;
    let mut next = start;
    loop {
        let from = pairs.partition_point(|p| p.0 < parent);
        let children = pairs[from..].iter().take_while(|p| p.0 == parent);
        for &(_, child) in children {
            if !keep(child) {
                continue;
            }
            if out.len() - start >= max {
                return false;
            }
            out.push(child);
        }
        let Some(&pid) = out.get(next) else {
            return true;
        };
        next += 1;
        parent = pid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_follows_parents_and_stops() {
        let mut pairs = vec![(1, 2), (1, 3), (3, 4), (4, 5), (9, 10)];
        pairs.sort_unstable();
        let mut out = Vec::new();
        assert!(below(1, &pairs, 10, &mut |_| true, &mut out));
        assert_eq!(out, [2, 3, 4, 5]);
        out.clear();
        assert!(!below(1, &pairs, 2, &mut |_| true, &mut out));
        assert_eq!(out, [2, 3]);
        out.clear();
        assert!(below(1, &pairs, 10, &mut |pid| pid != 3, &mut out));
        assert_eq!(out, [2]);
    }

    #[test]
    fn no_more_threads_are_looked_at_than_are_allowed() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(|| std::thread::park_timeout(std::time::Duration::from_secs(60)))
            })
            .collect();
        let mut left = 4;
        let all = descendants_within(own, 100, &mut left, &mut Vec::new()).unwrap();
        assert!(!all && left == 0);
        let mut left = 10_000;
        descendants_within(own, 100, &mut left, &mut Vec::new()).unwrap();
        assert!(left < 10_000 - 8 && left > 0, "{left}");
        for thread in threads {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }

    #[test]
    fn both_ways_find_the_same_children() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let (mut listed, mut searched) = (Vec::new(), Vec::new());
        let (mut others, pid) = (Vec::new(), child.id() as i32);
        let outcome = descendants(own, 100, &mut listed)
            .and(by_parents(own, 100, &mut |_| true, &mut searched))
            .and(descendants_where(
                own,
                100,
                &mut |one| one != pid,
                &mut others,
            ));
        let is_shown = || numbers().unwrap().any(|one| one == pid);
        let shown = (is_shown(), crate::process::exists(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((shown, is_shown()), ((true, true), false));
        assert!(!crate::process::exists(pid));
        assert!(outcome.unwrap() && !others.contains(&pid));
        assert!(
            listed.contains(&pid) && searched.contains(&pid),
            "{listed:?} {searched:?}"
        );
    }
}
