//! The number and the time of collections, from the counters of a Java virtual machine.

use plimsoll_programs::hotspot::hsperfdata::PerfFile;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::process::Process;

/// The counters of one program, once it turns out to be a Java virtual machine.
#[derive(Debug, Default)]
pub struct Collections {
    counters: Option<PerfFile>,
    last: (u64, u64),
}

impl Collections {
    /// Looks for a Java virtual machine among the processes of the program.
    pub fn find(&mut self, pids: &[i32]) {
        if self.counters.is_some() {
            return;
        }
        let open = |pid: &i32| PerfFile::open(&Process::new(*pid as u32).ok()?).ok();
        self.counters = pids.iter().find_map(open);
    }

    /// The number of collections so far and the nanoseconds that they took. Once the machine is gone, the
    /// last known values.
    pub fn look(&mut self) -> (u64, u64) {
        let read = self.counters.as_mut().and_then(|file| file.read().ok());
        if let Some(now) = read.map(Snapshot::of) {
            self.last = (
                self.last.0.max(now.collections()),
                self.last.1.max(now.collecting_time().0),
            );
        }
        self.last
    }
}
