//! Tier 1: delay accounting of one process. Source: kernel document `delay-accounting.rst`.

use super::{Declined, Stalled, TaskStalls, Taskstats};
use crate::process::Process;
use crate::reader::Reader;
use crate::{Result, clock};
use std::time::Duration;

/// The switch. Threads that are made while it is 1 are counted.
const SWITCH: &str = "/proc/sys/kernel/task_delayacct";
/// How often an unlikely reading is read again.
const MAX_AGAIN: u32 = 3;
/// The pause before that: an exiting thread takes less.
const PAUSE: Duration = Duration::from_micros(50);

/// Counts the allocation stalls of one process.
#[derive(Debug)]
pub(super) struct Delays {
    taskstats: Taskstats,
    /// The latest reading, and when (ns, monotonic); changed by each reading.
    latest: (Stalled, u64),
}

impl Delays {
    /// Makes sure that the process is counted.
    pub(super) fn open(process: &Process) -> std::result::Result<Delays, Declined> {
        let mut taskstats = Taskstats::open().map_err(|e| match e.is_absent() {
            true => Declined::NoTaskstats,
            false => Declined::Kernel(e),
        })?;
        // Whether the process is counted was settled when its first thread was made. Threads that
        // came later may be counted although most are not, so the sum over all does not tell.
        let first = taskstats.thread(process.pid())?;
        if !first.any() {
            return Err(match is_on() {
                Some(false) => Declined::SwitchedOff,
                _ => Declined::OlderThanSwitch { pid: process.pid() },
            });
        }
        let latest = stalled(&taskstats.process(process.pid())?);
        Ok(Delays {
            taskstats,
            latest: (latest, clock::now_ns()),
        })
    }

    /// The stalls of all threads, exited ones included, since the process started.
    ///
    /// A thread that is exiting counts twice for some microseconds: in the sum of those that have
    /// exited, and for itself. A reading that grew by more than the time that passed is therefore
    /// read again, and the lowest counts.
    pub(super) fn read(&mut self, process: &Process) -> Result<Stalled> {
        let (before, then_ns) = self.latest;
        let mut now = stalled(&self.taskstats.process(process.pid())?);
        let now_ns = clock::now_ns();
        for _ in 0..MAX_AGAIN {
            if now.since(before).ns <= now_ns.saturating_sub(then_ns) {
                break;
            }
            std::thread::sleep(PAUSE);
            let again = stalled(&self.taskstats.process(process.pid())?);
            if again.count < now.count || again.ns < now.ns {
                now = again;
            }
        }
        self.latest = (now, now_ns);
        Ok(now)
    }
}

fn stalled(stalls: &TaskStalls) -> Stalled {
    Stalled {
        count: stalls.reclaim_count,
        ns: stalls.reclaim_ns,
    }
}

/// Whether delays of new threads are counted; `None` if the kernel does not tell.
pub(super) fn is_on() -> Option<bool> {
    let value = Reader::open(SWITCH).and_then(|reader| reader.number());
    value.ok()?.map(|value| value != 0)
}
