//! The stall signal of a machine, read from outside: how often and how long the kernel made its
//! collector wait for memory.
//!
//! Isla Vista (Grzegorczyk and others, section 3.1) counts the stalls *within* collections. Between
//! the ends of two collections the whole process is charged more: the program's own threads stall
//! too, and in a group that is full of cached files each read of a file does. So the threads of the
//! collector are counted alone where the kernel accounts threads, which only delay accounting does.
//! Otherwise, and for collectors that work beside the program, the whole process counts.

use super::machine::Collector;
use crate::process::Process;
use plimsoll_kernel::stalls::Taskstats;
use std::time::{Duration, Instant};

/// How often the collector's threads are looked for. They are started as they are needed.
const SEARCH: Duration = Duration::from_secs(2);
/// Threads that are looked at in one search.
const MOST_THREADS: usize = 4096;

/// Stalls since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stalled {
    /// How often a thread had to wait.
    pub(super) count: u64,
    /// How long they waited together, nanoseconds; 0 if the signal does not tell.
    pub(super) ns: u64,
}

impl Stalled {
    /// What came since `earlier`. A counter that wrapped or went back gives 0.
    fn since(self, earlier: Stalled) -> Stalled {
        Stalled {
            count: self.count.saturating_sub(earlier.count),
            ns: self.ns.saturating_sub(earlier.ns),
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Stalled) -> Stalled {
        Stalled {
            count: self.count.saturating_add(other.count),
            ns: self.ns.saturating_add(other.ns),
        }
    }
}

/// Where the signal comes from. Used by the steering loop's thread alone.
#[derive(Debug)]
enum Source {
    /// Delay accounting of the collector's threads.
    Threads(Taskstats, Vec<Thread>),
    /// Delay accounting of the whole process.
    Whole(Taskstats, Stalled),
    /// Major faults of the process at the last reading.
    MajorFaults(u64),
}

/// A thread of the collector.
#[derive(Clone, Copy, Debug)]
struct Thread {
    /// Its number.
    tid: i32,
    /// Its counters at the last reading.
    last: Stalled,
}

/// The signal of one machine.
#[derive(Debug)]
pub(super) struct Signal {
    process: Process,
    source: Source,
    /// When the collector's threads were last looked for; `None` at first.
    searched: Option<Instant>,
}

impl Signal {
    /// Takes the best signal that works here. Returns it with a line about it for `-v`.
    pub(super) fn open(process: Process, collector: Collector) -> (Signal, String) {
        let pid = i32::try_from(process.pid).unwrap_or(-1);
        let accounted = Taskstats::open().and_then(|mut stats| {
            let now = stats.process(pid)?;
            Ok((stats, now))
        });
        let faults = process.major_faults().unwrap_or(0);
        let (source, told) = match accounted {
            _ if !accounts() => (
                Source::MajorFaults(faults),
                "major faults, because kernel.task_delayacct is 0".to_owned(),
            ),
            Err(error) => (
                Source::MajorFaults(faults),
                format!("major faults, because delay accounting is closed: {error}"),
            ),
            Ok((stats, now)) if collector.has_soft_max() => {
                let now = Stalled {
                    count: now.reclaim_count,
                    ns: now.reclaim_ns,
                };
                (
                    Source::Whole(stats, now),
                    "delay accounting of the process".to_owned(),
                )
            }
            Ok((stats, _)) => (
                Source::Threads(stats, Vec::new()),
                "delay accounting of the collector's threads".to_owned(),
            ),
        };
        let mut signal = Signal {
            process,
            source,
            searched: None,
        };
        let _ = signal.read();
        (signal, told)
    }

    /// What came since the last call. 5 us for each thread of the collector.
    pub(super) fn read(&mut self) -> Stalled {
        let pid = i32::try_from(self.process.pid).unwrap_or(-1);
        let due = self.searched.is_none_or(|at| at.elapsed() >= SEARCH);
        match &mut self.source {
            Source::Threads(stats, threads) => {
                if due {
                    let first = self.searched.is_none();
                    search(&self.process, first, stats, threads);
                    self.searched = Some(Instant::now());
                }
                let mut sum = Stalled::default();
                threads.retain_mut(|thread| {
                    let Some(now) = of_thread(stats, thread.tid) else {
                        return false;
                    };
                    sum = sum.and(now.since(thread.last));
                    thread.last = now;
                    true
                });
                sum
            }
            Source::Whole(stats, last) => {
                let Ok(now) = stats.process(pid) else {
                    return Stalled::default();
                };
                let now = Stalled {
                    count: now.reclaim_count,
                    ns: now.reclaim_ns,
                };
                let since = now.since(*last);
                *last = now;
                since
            }
            Source::MajorFaults(last) => {
                let now = self.process.major_faults().unwrap_or(*last);
                let since = now.saturating_sub(*last);
                *last = now;
                Stalled {
                    count: since,
                    ns: 0,
                }
            }
        }
    }
}

/// Whether the kernel accounts delays of processes that are started now.
fn accounts() -> bool {
    let said = std::fs::read_to_string("/proc/sys/kernel/task_delayacct");
    // Kernels before 5.14 have no such file and account as they were booted.
    said.map_or(true, |said| said.trim() != "0")
}

fn of_thread(stats: &mut Taskstats, tid: i32) -> Option<Stalled> {
    let now = stats.thread(tid).ok()?;
    Some(Stalled {
        count: now.reclaim_count,
        ns: now.reclaim_ns,
    })
}

/// Adds threads of the collector that are not in the list. At the `first` search they begin with
/// what they have; later ones have begun since.
fn search(process: &Process, first: bool, stats: &mut Taskstats, threads: &mut Vec<Thread>) {
    let Ok(tasks) = std::fs::read_dir(process.path("task")) else {
        return;
    };
    for task in tasks.flatten().take(MOST_THREADS) {
        let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
        let Some(tid) = tid.filter(|tid| threads.iter().all(|known| known.tid != *tid)) else {
            continue;
        };
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if !collects(name.trim_end()) {
            continue;
        }
        let last = match first {
            true => of_thread(stats, tid).unwrap_or_default(),
            false => Stalled::default(),
        };
        threads.push(Thread { tid, last });
    }
}

/// Whether a thread of this name does collections that stop the program. Serial collects in the VM
/// thread; the workers of Parallel and G1 have the other name.
fn collects(name: &str) -> bool {
    name == "VM Thread" || name.starts_with("GC Thread#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_went_back_give_nothing() {
        let of = |count, ns| Stalled { count, ns };
        assert_eq!(of(5, 700).since(of(3, 200)), of(2, 500));
        assert_eq!(of(1, 100).since(of(3, 200)), of(0, 0));
        assert_eq!(of(1, 1).and(of(u64::MAX, 2)), of(u64::MAX, 3));
    }

    #[test]
    fn collectors_are_known_by_their_names() {
        assert!(collects("VM Thread") && collects("GC Thread#12"));
        assert!(!collects("main") && !collects("G1 Conc#0") && !collects("VM Periodic Tas"));
    }
}
