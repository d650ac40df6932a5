//! A process and its descendants.

use crate::process::Process;

/// The most descendants that are looked at.
const MAX: usize = 4096;

/// In the environment of whatever `plimsoll run` starts: the number of its principal.
const PRINCIPAL: &[u8] = b"PLIMSOLL_ID=";

/// This process and its descendants, nearest first. What descends from another principal's process
/// (a `plimsoll run` inside of this program) is that principal's.
pub fn of(root: u32) -> Vec<u32> {
    let ours = principal_of(root);
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() && found.len() < MAX {
        for child in children(found[next]) {
            if !found.contains(&child) && is_of(child, ours.as_deref()) {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

/// One that cleared its environment, or hides it, is still of the family.
fn is_of(pid: u32, ours: Option<&[u8]>) -> bool {
    principal_of(pid).is_none_or(|principal| Some(&*principal) == ours)
}

/// What its environment says; nothing where that cannot be read.
fn principal_of(pid: u32) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    variables.find_map(|variable| variable.strip_prefix(PRINCIPAL).map(<[u8]>::to_vec))
}

fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return found;
    };
    for thread in threads.flatten().take(MAX) {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace()
                    .filter_map(|w| w.parse::<u32>().ok()),
            ),
            // A kernel without this file.
            Err(_) if thread.path().exists() => return children_by_parent(pid),
            Err(_) => {}
        }
    }
    found
}

fn children_by_parent(pid: u32) -> Vec<u32> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = all
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|&child| Process::new(child).is_ok_and(|p| p.parent() == Some(pid)))
        .take(MAX)
        .collect()
}

/// What the descendants of `root`, itself included, use beside `but`: bytes.
pub fn uses_of_others(root: u32, but: u32) -> u64 {
    let others = of(root).into_iter().filter(|&pid| pid != but);
    others
        .filter_map(|pid| Process::new(pid).ok()?.status().ok())
        .map(|s| s.rss_anon + s.rss_shmem)
        .sum()
}
