//! The counters of a machine: in a file, or else in its own memory.

use crate::hotspot::machine::Machine;
use crate::hotspot::snapshot::{Snapshot, Snapshots};
use crate::process::Process;
use plimsoll_programs::hotspot::hsperfdata::{PerfError, PerfFile};
use tracing::{info, warn};

/// Reads the counters of one machine.
pub(super) struct Counters {
    /// The machine's process.
    process: Process,
    /// The counters; `None` if it publishes none.
    file: Option<PerfFile>,
    /// Takes what is needed of them.
    snapshots: Snapshots,
    /// The user was told why they cannot be read.
    warned: bool,
}

impl Counters {
    /// Finds the counters of this machine. Warns if there are none.
    pub(super) fn of(process: Process, machine: &Machine) -> Counters {
        let file = find(&process, machine);
        if let Err(error) = &file {
            warn!("{error}");
        }
        Counters {
            process,
            file: file.ok(),
            snapshots: Snapshots::default(),
            warned: false,
        }
    }

    /// Whether the machine publishes any.
    pub(super) fn are_there(&self) -> bool {
        self.file.is_some()
    }

    /// The counters of this moment; `None` if they cannot be read now.
    pub(super) fn read(&mut self, machine: &Machine) -> Option<Snapshot> {
        match self.file.as_mut()?.read() {
            Ok(counters) => Some(self.snapshots.take(counters)),
            Err(PerfError::Unfinished { .. } | PerfError::Gone { .. }) => None,
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    warn!("{error}; it is not steered while this lasts");
                }
                if matches!(error, PerfError::Unreadable { .. }) {
                    self.file = find(&self.process, machine).ok();
                }
                None
            }
        }
    }
}

fn find(process: &Process, machine: &Machine) -> Result<PerfFile, PerfError> {
    let flags = &machine.flags;
    let absent = match PerfFile::open(process) {
        Err(absent @ PerfError::Absent { .. }) if flags.on_or("UsePerfData", true) => absent,
        other => return other,
    };
    let pid = process.pid;
    info!("process {pid} makes no file of its counters: they are searched for in its memory");
    let Some(size) = flags.number("PerfDataMemorySize") else {
        return Err(absent);
    };
    let (perf, searched) = PerfFile::in_memory(process, machine.heap.as_ref(), size)?;
    info!(
        "process {pid}: its counters were found after a look at {} pages",
        searched.pages
    );
    Ok(perf)
}
