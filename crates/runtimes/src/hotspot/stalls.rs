//! The stall signal of a machine, read from outside: how often and how long the kernel made its
//! collector wait for memory.
//!
//! Isla Vista (Grzegorczyk and others, section 3.1) counts the stalls *within* collections. Between
//! the ends of two collections the whole process is charged more: the program's own threads stall
//! too, and in a group that is full of cached files each read of a file does. So the threads of the
//! collector are counted alone where the kernel accounts threads, which only delay accounting does.
//! Otherwise, and for collectors that work beside the program, the whole process counts. An agent in
//! the machine reads the same signal at the begin and the end of each pause, so what it tells comes
//! before, unless we may read a better one than it.

use super::agent::Page;
use super::machine::Collector;
use crate::process::Process;
use plimsoll_kernel::stalls::{Stalled, Stalls, Taskstats, Tier};
use plimsoll_wire::collections::Signal as Told;
use std::time::{Duration, Instant};

/// How often the collector's threads are looked for. They are started as they are needed.
const SEARCH: Duration = Duration::from_secs(2);
/// Threads that are looked at in one search.
const MOST_THREADS: usize = 4096;
/// Fewer major faults than this between two collections tell nothing: classes and libraries are read
/// from files all the time. The paper's section 5 tells of others who found this number.
const FEW_FAULTS: u64 = 10;

/// Where the signal comes from. Used by the steering loop's thread alone.
#[derive(Debug)]
enum Source {
    /// Delay accounting of the collector's threads.
    Threads(Taskstats, Vec<Thread>),
    /// Any signal of the whole process, and its last reading.
    Whole(Box<Stalls>, Stalled),
    /// The process is gone or closed to us.
    Nothing,
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
    /// The machine's process.
    process: Process,
    /// What is read.
    source: Source,
    /// When the collector's threads were last looked for; `None` at first.
    searched: Option<Instant>,
    /// Whether the collector stops the program for its work.
    stops: bool,
    /// The tier that is read from outside.
    tier: Option<Tier>,
    /// The stalls within pauses by the agent's page at the last reading; `None` without.
    page: Option<Stalled>,
}

impl Signal {
    /// Takes the best signal that works here. Returns it with lines about it for `-v`: what is read,
    /// and why nothing better.
    pub(super) fn open(process: Process, collector: Collector) -> (Signal, Vec<String>) {
        let pid = i32::try_from(process.pid).unwrap_or(-1);
        let (mut told, mut tier) = (Vec::new(), None);
        let source = match Stalls::open(pid) {
            Ok(stalls) => {
                tier = Some(stalls.tier());
                Source::of(stalls, collector, &mut told)
            }
            Err(error) => {
                told.push(format!("no stall of it can be seen: {error}"));
                Source::Nothing
            }
        };
        let mut signal = Signal {
            process,
            source,
            searched: None,
            stops: !collector.has_soft_max(),
            tier,
            page: None,
        };
        // The first reading is where it begins.
        let _ = signal.outside();
        (signal, told)
    }

    /// Whether the program's own stalls are counted too, so that they are spread over all the time
    /// and not over the collections alone.
    pub(super) fn is_whole(&self) -> bool {
        self.page.is_none() && matches!(self.source, Source::Whole(..))
    }

    /// Fewer stalls than this in a collection tell nothing.
    pub(super) fn few(&self) -> u64 {
        match &self.source {
            Source::Whole(stalls, _) if stalls.tier() == Tier::MajorFaults => FEW_FAULTS,
            _ => 0,
        }
    }

    /// What came since the last call: by the agent's page if that is the better signal, else from
    /// outside, where it takes 5 us for each thread of the collector.
    pub(super) fn read(&mut self, page: Option<&Page>) -> Stalled {
        let inside = page.filter(|_| self.stops).and_then(|page| {
            let view = page.view().ok()?;
            let told = view.about().signal;
            let better = self.tier.is_none_or(|tier| told as u64 <= tier as u64);
            let totals = view.totals().filter(|_| better && told != Told::None)?;
            Some(Stalled {
                count: totals.stalls,
                ns: totals.stall_ns,
            })
        });
        let Some(now) = inside else {
            self.page = None;
            return self.outside();
        };
        // Those before our first reading are of another time.
        let before = self.page.replace(now).unwrap_or(now);
        now.since(before)
    }

    fn outside(&mut self) -> Stalled {
        match &mut self.source {
            Source::Threads(stats, threads) => {
                if self.searched.is_none_or(|at| at.elapsed() >= SEARCH) {
                    search(&self.process, self.searched.is_none(), stats, threads);
                    self.searched = Some(Instant::now());
                }
                let mut sum = Stalled::default();
                threads.retain_mut(|thread| {
                    let Some(now) = of_thread(stats, thread.tid) else {
                        return false;
                    };
                    sum = and(sum, now.since(thread.last));
                    thread.last = now;
                    true
                });
                sum
            }
            Source::Whole(stalls, last) => {
                let Ok(now) = stalls.read() else {
                    return Stalled::default();
                };
                let since = now.since(*last);
                *last = now;
                since
            }
            Source::Nothing => Stalled::default(),
        }
    }
}

impl Source {
    /// The source for this collector, and lines about it.
    fn of(stalls: Stalls, collector: Collector, told: &mut Vec<String>) -> Source {
        for (tier, why) in stalls.declined() {
            told.push(format!("{} does not work: {why}", tier.name()));
        }
        let within = !collector.has_soft_max() && stalls.tier() == Tier::DelayAccounting;
        match Taskstats::open() {
            Ok(stats) if within => {
                told.push(format!(
                    "{} of the collector's threads",
                    stalls.tier().name()
                ));
                Source::Threads(stats, Vec::new())
            }
            _ => {
                told.push(format!("{} of the whole process", stalls.tier().name()));
                Source::Whole(Box::new(stalls), Stalled::default())
            }
        }
    }
}

/// Both together.
pub(super) fn and(one: Stalled, other: Stalled) -> Stalled {
    Stalled {
        count: one.count.saturating_add(other.count),
        ns: one.ns.saturating_add(other.ns),
    }
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
    fn sums_do_not_overflow() {
        let of = |count, ns| Stalled { count, ns };
        assert_eq!(and(of(1, 1), of(u64::MAX, 2)), of(u64::MAX, 3));
    }

    #[test]
    fn collectors_are_known_by_their_names() {
        assert!(collects("VM Thread") && collects("GC Thread#12"));
        assert!(!collects("main") && !collects("G1 Conc#0") && !collects("VM Periodic Tas"));
    }

    #[test]
    fn a_process_that_is_gone_has_no_stalls() {
        let gone = Process {
            pid: 4_194_305,
            started: 1,
        };
        let (mut signal, told) = Signal::open(gone, Collector::G1);
        assert!(told[0].contains("no stall"), "{told:?}");
        assert_eq!(signal.read(None), Stalled::default());
    }
}
