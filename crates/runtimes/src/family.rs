//! A process and its descendants.

use crate::process::Process;

/// The most descendants that are looked at.
const MAX: usize = 4096;

/// This process and its descendants, nearest first.
pub fn of(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() && found.len() < MAX {
        for child in children(found[next]) {
            if !found.contains(&child) {
                found.push(child);
            }
        }
        next += 1;
    }
    found
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
