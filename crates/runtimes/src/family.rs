//! The processes of a program: a process and its descendants, except those of another principal.

use crate::process::Process;
use plimsoll_client::govern;
use plimsoll_kernel::process::{descendants_where, newest, variable_of};
use plimsoll_unit::Bytes;

/// The most descendants that are looked at.
const MAX: usize = 4096;

/// The variable that holds the number of the principal. `plimsoll run` sets it for the program that
/// it starts.
const PRINCIPAL: &str = "PLIMSOLL_ID";

/// This process and its descendants, nearest first. Descendants of another principal's process
/// (started by a `plimsoll run` inside this program) are left out, because they belong to that
/// principal.
pub fn of(root: u32) -> Vec<u32> {
    let ours = variable_of(root, PRINCIPAL);
    let mut keep = |pid: i32| u32::try_from(pid).is_ok_and(|pid| is_of(pid, ours.as_deref()));
    let mut found = Vec::new();
    if let Ok(root) = i32::try_from(root) {
        // If a process cannot be looked at, what was found before it still counts.
        let _ = descendants_where(root, MAX, &mut keep, &mut found);
    }
    let mut family = vec![root];
    for pid in found.into_iter().flat_map(u32::try_from) {
        // A process that got another parent meanwhile may be found twice.
        if !family.contains(&pid) {
            family.push(pid);
        }
    }
    family
}

/// Whether a process belongs to the family. It does too if its environment is cleared or hidden.
fn is_of(pid: u32, ours: Option<&[u8]>) -> bool {
    variable_of(pid, PRINCIPAL).is_none_or(|principal| Some(&*principal) == ours)
}

/// A process's own memory (`RssAnon` + `RssShmem`); `None` if it is gone.
pub fn uses(pid: u32) -> Option<Bytes> {
    let memory = Process::new(pid).ok()?.memory().ok()?;
    Some(memory.anon + memory.shmem)
}

/// The family of a process, which is looked for again only when a process was started since: a file is read
/// for each thread.
#[derive(Debug)]
pub struct Family {
    /// The process at the top.
    root: u32,
    /// Its members, as found last.
    members: Vec<u32>,
    /// The newest process or thread at that time.
    newest: Option<u64>,
    /// How often it was looked for.
    searches: u32,
}

impl Family {
    /// That of this process; nothing is looked for yet.
    pub fn new(root: u32) -> Family {
        Family {
            root,
            members: Vec::new(),
            newest: None,
            searches: 0,
        }
    }

    /// The memory that all use together, without the process `but`.
    pub fn uses_of_others(&mut self, but: u32) -> Bytes {
        let newest = newest();
        if newest.is_none() || newest != self.newest {
            self.members = of(self.root);
            self.newest = newest;
            self.searches = self.searches.saturating_add(1);
        }
        let others = self.members.iter().copied().filter(|&pid| pid != but);
        others.filter_map(uses).sum()
    }
}

/// The part of a program's `usable` memory that is left to a process when the others use `others`. At
/// least one byte: 0 stands for no limit.
pub fn process_limit(usable: Bytes, others: Bytes) -> Bytes {
    govern::process_limit(usable, others).max(Bytes(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A shell of one principal that starts a shell of another. Both wait for input.
    fn pair(inner: &str) -> Child {
        let script =
            format!("exec 3<&0; PLIMSOLL_ID={inner} sh -c 'sh -c \"read x\"; :' <&3 & wait");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env(PRINCIPAL, "1");
        shell.stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn what_belongs_to_another_principal_is_not_of_the_family() {
        for (inner, size) in [("1", 3), ("2", 1)] {
            let mut shell = pair(inner);
            let root = shell.id();
            let grown = || {
                let mut all = Vec::new();
                let root = i32::try_from(root).unwrap();
                let _ = descendants_where(root, MAX, &mut |_| true, &mut all);
                // A child has the environment of its parent until its exec.
                all.len() == 2 && all.iter().all(|&pid| told(pid) == inner.as_bytes())
            };
            let all = (0..60_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                grown()
            });
            let family = of(root);
            // The end of their input ends them.
            drop(shell.stdin.take());
            shell.wait().unwrap();
            assert!(all, "both shells start");
            assert_eq!(family.len(), size, "{family:?}");
            assert_eq!(family[0], root);
        }
    }

    #[test]
    fn a_family_is_looked_for_when_a_process_was_started() {
        let mut shell = pair("1");
        let root = shell.id();
        while of(root).len() < 3 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut family = Family::new(root);
        // Somebody else may start a process at any time, so this is tried again.
        let rests = (0..10_000).any(|_| {
            let before = family.searches;
            assert!(family.uses_of_others(root) > Bytes::ZERO);
            family.searches == before
        });
        assert!(rests, "{} searches", family.searches);
        // The end of their input ends them.
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(family.uses_of_others(root), Bytes::ZERO);
    }

    fn told(pid: i32) -> Vec<u8> {
        let pid = u32::try_from(pid).unwrap();
        variable_of(pid, PRINCIPAL).unwrap_or_default()
    }
}
