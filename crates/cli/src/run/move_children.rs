//! Moves a program's early children to its cgroup. The broker makes the cgroup when it learns of
//! the process, and children that were born before stay in the old group.

use plimsoll_kernel::cgroup::{Cgroup, locate};
use plimsoll_kernel::process::{Process, descendants};
use std::path::PathBuf;
use tracing::info;

/// How often to look for new children at most. Children of a process that has moved are born in the
/// new group.
const LOOKS: usize = 8;
/// The most descendants of a program that is some milliseconds old.
const MOST: usize = 4096;

/// The memory cgroup of a process.
pub(super) fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let location = locate(i32::try_from(pid).ok()?).ok()??;
    location.exact.then_some(location.dir)
}

/// Moves descendants of `pid` that are still in the group `before`, where it started, to its
/// present group.
pub(super) fn gather(pid: u32, before: Option<PathBuf>) {
    let (Some(before), Some(now)) = (before, cgroup_of(pid)) else {
        return;
    };
    let (Ok(number), Ok(home)) = (i32::try_from(pid), Cgroup::at(&now)) else {
        return;
    };
    if before == now {
        return;
    }
    for _ in 0..LOOKS {
        let mut found = Vec::new();
        if descendants(number, MOST, &mut found).is_err() {
            return;
        }
        let family = |parent: i32| parent == number || found.contains(&parent);
        let strays = found
            .iter()
            .filter_map(|&child| Process::open(child).ok())
            // The number may belong to another process by now.
            .filter(|child| child.ids().is_ok_and(|ids| family(ids.parent)))
            .filter(|child| cgroup_of(child.pid().unsigned_abs()).as_ref() == Some(&before));
        // Processes that are gone or may not be moved are left alone.
        let moved = strays
            .filter(|child| home.add_process(child).is_ok())
            .count();
        if moved == 0 {
            return;
        }
        info!("moved {moved} early children of process {pid} to its cgroup");
    }
}
