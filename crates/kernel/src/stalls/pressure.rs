//! Tier 4: the total of `memory.pressure` of the process's own group. Source: kernel documents
//! `accounting/psi.rst`, `cgroup-v2.rst`. It works beside a memory controller of version 1, too, if
//! the process has a group of its own in the version 2 hierarchy.

use super::{Declined, Stalled};
use crate::cgroup;
use crate::pressure::Psi;
use crate::process::Process;
use crate::{Error, Result};

/// Opens the file of the group that the process is in now; a move later is not followed.
pub(super) fn open(process: &Process) -> std::result::Result<Psi, Declined> {
    let pid = process.pid();
    let dir = cgroup::unified(pid)?.ok_or(Declined::NoGroup { pid })?;
    if !process.alive() {
        return Err(Declined::Kernel(Error::Gone { pid }));
    }
    // Only the top group of the machine lacks this file; that of a container has it.
    if !dir.join("cgroup.events").exists() {
        return Err(Declined::TopGroup { pid });
    }
    Psi::open(&dir.join("memory.pressure")).map_err(|e| match e.is_absent() {
        true => Declined::NoPressure,
        false => Declined::Kernel(e),
    })
}

/// The time for which at least one thread of the group waited.
pub(super) fn read(psi: &Psi) -> Result<Stalled> {
    Ok(Stalled {
        count: 0,
        ns: psi.read()?.some_us.saturating_mul(1000),
    })
}
