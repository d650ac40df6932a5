//! Tier 4: the total of `memory.pressure` of the process's own group. Source: kernel documents
//! `accounting/psi.rst`, `cgroup-v2.rst`. It works beside a memory controller of version 1, too, if
//! the process has a group of its own in the version 2 hierarchy.

use super::{Declined, Stalled};
use crate::cgroup;
use crate::descriptors::file_of;
use crate::pressure::Psi;
use crate::process::Process;
use crate::{Error, Result};

/// The file of a group's pressure.
#[derive(Debug)]
pub(super) struct Group {
    psi: Psi,
    /// Device and inode of the file.
    is: Option<(u64, u64)>,
}

impl Group {
    pub(super) fn of(psi: Psi) -> Group {
        Group {
            is: file_of(&psi),
            psi,
        }
    }

    /// Whether the descriptor is still ours.
    pub(super) fn is_ours(&self) -> bool {
        self.is.is_some() && file_of(&self.psi) == self.is
    }

    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<std::os::fd::RawFd> {
        use std::os::fd::{AsFd, AsRawFd};
        vec![self.psi.as_fd().as_raw_fd()]
    }

    /// The time for which at least one thread of the group waited.
    pub(super) fn read(&self) -> Result<Stalled> {
        Ok(Stalled {
            count: 0,
            time: self.psi.read()?.some,
        })
    }
}

/// Opens the file of the group that the process is in now; a move later is not followed.
pub(super) fn open(process: &Process) -> std::result::Result<Group, Declined> {
    let pid = process.pid();
    let dir = cgroup::unified(pid)?.ok_or(Declined::NoGroup { pid })?;
    if !process.alive() {
        return Err(Declined::Kernel(Error::Gone { pid }));
    }
    // Only the top group of the machine lacks this file; that of a container has it.
    if !dir.join("cgroup.events").exists() {
        return Err(Declined::TopGroup { pid });
    }
    let psi = Psi::open(&dir.join("memory.pressure")).map_err(|e| {
        if e.is_absent() {
            Declined::NoPressure
        } else {
            Declined::Kernel(e)
        }
    })?;
    Ok(Group::of(psi))
}
