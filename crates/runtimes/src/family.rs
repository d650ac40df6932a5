//! A program: a process and its descendants, without those that belong to another program of the broker's.

use crate::process::Process;
use plimsoll_kernel::process::{descendants_where, variable_of};

/// The most descendants that are looked at.
const MAX: usize = 4096;

/// In the environment of whatever `plimsoll run` starts: the number of its principal.
const PRINCIPAL: &str = "PLIMSOLL_ID";

/// This process and its descendants, nearest first. What descends from another principal's process
/// (a `plimsoll run` inside of this program) is that principal's.
pub fn of(root: u32) -> Vec<u32> {
    let ours = variable_of(root, PRINCIPAL);
    let mut keep = |pid: i32| u32::try_from(pid).is_ok_and(|pid| is_of(pid, ours.as_deref()));
    let mut found = Vec::new();
    if let Ok(root) = i32::try_from(root) {
        // What was found before a process could not be looked at is found.
        let _ = descendants_where(root, MAX, &mut keep, &mut found);
    }
    let mut family = vec![root];
    for pid in found.into_iter().flat_map(u32::try_from) {
        // One that went to another parent meanwhile may be found twice.
        if !family.contains(&pid) {
            family.push(pid);
        }
    }
    family
}

/// One that cleared its environment, or hides it, is still of the family.
fn is_of(pid: u32, ours: Option<&[u8]>) -> bool {
    variable_of(pid, PRINCIPAL).is_none_or(|principal| Some(&*principal) == ours)
}

/// Bytes that a process uses of its own; `None` when it is gone.
pub fn uses(pid: u32) -> Option<u64> {
    let memory = Process::new(pid).ok()?.memory().ok()?;
    Some(memory.anon.saturating_add(memory.shmem))
}

/// What the descendants of `root`, itself included, use beside `but`: bytes.
pub fn uses_of_others(root: u32, but: u32) -> u64 {
    let others = of(root).into_iter().filter(|&pid| pid != but);
    others.filter_map(uses).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A shell with this principal that starts another with that one, and both wait for their input.
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
                // Until it has become another program a child has the environment of its parent.
                all.len() == 2 && all.iter().all(|&pid| told(pid) == inner.as_bytes())
            };
            let all = (0..1000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
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

    fn told(pid: i32) -> Vec<u8> {
        let pid = u32::try_from(pid).unwrap();
        variable_of(pid, PRINCIPAL).unwrap_or_default()
    }
}
