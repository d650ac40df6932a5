//! A cgroup for the time of a test.

use crate::{sweep, unique};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Every test group's name begins so.
const PREFIX: &str = "plimsoll-test-";

/// A cgroup below our own (in v2 below the top, if our own may have no children with limits).
/// Dropping the guard ends all processes in the cgroup and removes it.
#[derive(Debug)]
pub struct TestCgroup {
    cgroup: Cgroup,
}

impl TestCgroup {
    /// Makes `plimsoll-test-<name>-<pid>-<n>` with this limit (bytes). Removes groups that a killed
    /// predecessor left.
    ///
    /// # Errors
    /// As [`Cgroup::create_child`] and [`Cgroup::set_limit`]; [`Error::Absent`] where there is no
    /// memory controller.
    pub fn new(name: &str, limit: Option<Bytes>) -> Result<TestCgroup> {
        let own = Cgroup::of_self()?.ok_or_else(|| Error::Absent {
            path: "/sys/fs/cgroup/memory.max".into(),
        })?;
        let name = unique(&format!("{PREFIX}{name}-"));
        match TestCgroup::below(&own, &name, limit) {
            Err(Error::Busy { .. } | Error::Denied { .. }) if own.version() == Version::V2 => {
                TestCgroup::below(&top_of(own)?, &name, limit)
            }
            other => other,
        }
    }

    /// Makes a group with exactly this name below another group.
    ///
    /// # Errors
    /// As [`TestCgroup::new`].
    pub fn below(parent: &Cgroup, name: &str, limit: Option<Bytes>) -> Result<TestCgroup> {
        sweep(parent.dir(), PREFIX, end);
        let guard = TestCgroup {
            cgroup: parent.create_child(name)?,
        };
        guard.cgroup.set_limit(limit)?;
        Ok(guard)
    }

    /// The group.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Number of processes that the kernel killed in it for lack of memory; 0 where that cannot be read.
    pub fn killed(&self) -> u64 {
        self.cgroup.events().map_or(0, |events| events.oom_kill)
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        end(self.cgroup.dir());
    }
}

/// Ends a group's processes and removes the group. Moves ourselves to the top first, if we are in
/// it.
fn end(dir: &Path) {
    let Ok(cgroup) = Cgroup::at(dir) else { return };
    let own = rustix::process::getpid();
    let mut members = Vec::new();
    // A group that cannot be read is left to the next sweep.
    let _ = cgroup.processes(65_536, &mut members);
    for pid in members
        .into_iter()
        .filter_map(Pid::from_raw)
        .filter(|&pid| pid != own)
    {
        let _ = kill_process(pid, Signal::KILL);
    }
    let top = Cgroup::at(dir).and_then(top_of).ok();
    let _ = cgroup.remove(top.as_ref().map(Cgroup::dir));
}

fn top_of(own: Cgroup) -> Result<Cgroup> {
    let mut top = own;
    while let Some(parent) = top.parent()? {
        top = parent;
    }
    Ok(top)
}
