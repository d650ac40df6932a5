//! A broker gives a program a cgroup of its own when it learns of its process. Children that were
//! born before that stay where they were; they are fetched after it.

use plimsoll_kernel::cgroup::{Cgroup, locate};
use plimsoll_kernel::process::{Process, descendants};
use std::path::PathBuf;
use tracing::info;

/// Looks at most so often for new children; those of a process that has moved are born beside it.
const LOOKS: usize = 8;
/// Most descendants that a program of some milliseconds has.
const MOST: usize = 4096;

/// Where a process of ours starts: its memory cgroup.
pub(super) fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let location = locate(i32::try_from(pid).ok()?).ok()??;
    location.exact.then_some(location.dir)
}

/// Moves those descendants of `pid` to its cgroup that are still in `before`, where it started.
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
            // The number may be another's by now.
            .filter(|child| child.ids().is_ok_and(|ids| family(ids.parent)))
            .filter(|child| cgroup_of(child.pid().unsigned_abs()).as_ref() == Some(&before));
        // One that may not be moved, or is gone, is left.
        let moved = strays
            .filter(|child| home.add_process(child).is_ok())
            .count();
        if moved == 0 {
            return;
        }
        info!("moved {moved} early children of process {pid} to its cgroup");
    }
}
