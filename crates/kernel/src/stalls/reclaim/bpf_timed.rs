//! Tier 2: counts and times the reclaim of one process, by a program at each tracepoint. All
//! threads count, those that exist and those that come.

use super::super::{Declined, Stalled};
use super::{BEGINS, ENDS, bpf, program};
use crate::Result;
use crate::capabilities::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, holds};
use crate::process::Process;
use plimsoll_unit::Nanos;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// Threads of the process that may reclaim at one time and are all timed; more are passed over.
const MAX_STALLED: u32 = 2048;
/// The inode of the first pid namespace (`PROC_PID_INIT_INO`): programs see numbers of that one.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Programs at the tracepoints, running while this lives.
#[derive(Debug)]
pub(in super::super) struct Timed {
    totals: OwnedFd,
    attached: Vec<OwnedFd>,
    /// The names that the kernel has for these, in this order.
    names: Vec<bpf::Name>,
}

impl Timed {
    /// Loads and attaches them.
    pub(in super::super) fn open(process: &Process) -> std::result::Result<Timed, Declined> {
        let namespace = std::fs::metadata("/proc/self/ns/pid").map(|link| link.ino());
        if !namespace.is_ok_and(|inode| inode == FIRST_NAMESPACE) {
            return Err(Declined::PidNamespace);
        }
        // Asked first: a call without these rights would be in vain, and some sandboxes end a program for it.
        let full = [CAP_BPF, CAP_PERFMON].into_iter().all(holds);
        if !(full || holds(CAP_SYS_ADMIN)) {
            return Err(bpf::not_permitted().into());
        }
        let starts = bpf::hash(MAX_STALLED)?;
        let totals = bpf::value(16)?;
        let (pid, map) = (process.pid(), starts.as_raw_fd());
        let begin = bpf::load(&program::begin(pid, map))?;
        let end = bpf::load(&program::end(pid, map, totals.as_raw_fd()))?;
        // The ends first: a thread that began before anybody looked is then passed over, never one
        // left in the map.
        let mut attached = Vec::with_capacity(ENDS.len() + BEGINS.len());
        for (names, program) in [(ENDS, &end), (BEGINS, &begin)] {
            for name in names {
                attached.push(bpf::attach(name, program)?);
            }
        }
        let mut timed = Timed {
            totals,
            attached,
            names: Vec::new(),
        };
        timed.names = timed.files().map(bpf::name).collect::<Result<_>>()?;
        Ok(timed)
    }

    fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.totals).chain(&self.attached)
    }

    /// Whether the descriptors are still ours.
    pub(in super::super) fn is_ours(&self) -> bool {
        let mut all = self.files().zip(&self.names);
        all.all(|(file, name)| bpf::name(file).is_ok_and(|now| now == *name))
    }

    #[cfg(test)]
    pub(in super::super) fn numbers(&self) -> Vec<std::os::fd::RawFd> {
        self.files().map(AsRawFd::as_raw_fd).collect()
    }

    /// The reclaim that began after opening, and has ended.
    pub(in super::super) fn read(&self) -> Result<Stalled> {
        let totals = bpf::read(&self.totals)?;
        Ok(Stalled {
            count: totals[program::COUNT / 8],
            time: Nanos(totals[program::NS / 8]),
        })
    }
}
