//! Collections, as a machine logs them (`-Xlog:gc`), and what its agent counts within them.

use crate::harness::watch::Watched;
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_runtimes::process::Process;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Time between two looks at a program.
const PACE: Duration = Duration::from_millis(100);

/// A machine's log of its pauses. Lengths are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Logged {
    /// Collections of the young generation (of G1, mixed ones too).
    pub(super) young: f64,
    /// Collections of the whole heap.
    pub(super) full: f64,
    /// All pauses together, and the longest.
    pub(super) paused: f64,
    pub(super) longest: f64,
}

impl Logged {
    pub(super) fn of(log: &str) -> Logged {
        let mut all = Logged::default();
        for line in log.lines() {
            let Some((_, pause)) = line.split_once(" Pause ") else {
                continue;
            };
            let length = pause.split_whitespace().last();
            let length = length.and_then(|last| last.strip_suffix("ms")?.parse::<f64>().ok());
            // A line that was not written to its end, or that tells of the beginning.
            let Some(length) = length else { continue };
            all.young += f64::from(u8::from(pause.starts_with("Young")));
            all.full += f64::from(u8::from(pause.starts_with("Full")));
            all.paused += length;
            all.longest = all.longest.max(length);
        }
        all
    }
}

/// Watches a Java program from outside.
#[derive(Debug)]
pub(super) struct Watch {
    /// Whether it is started by `plimsoll run`.
    is_launched: bool,
    watched: Option<Watched>,
    page: Option<Page>,
    next: Instant,
    seen: Counted,
}

/// The counts of the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Most memory that it had at one time without its files, bytes, that in swap not counted.
    pub(super) most: u64,
    /// Major faults within pauses, where the agent counts them.
    pub(super) faults: Option<u64>,
    /// Allocation stalls of the process, and those within pauses: likewise.
    pub(super) stalls: Option<(u64, u64)>,
}

impl Watch {
    pub(super) fn new(is_launched: bool) -> Watch {
        Watch {
            is_launched,
            watched: None,
            page: None,
            next: Instant::now(),
            seen: Counted::default(),
        }
    }

    /// Looks at the program that was started as this process, if it is time to.
    pub(super) fn look(&mut self, pid: u32) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PACE;
        if self.watched.is_none() {
            self.watched = Watched::new(pid, self.is_launched).ok();
        }
        let Some(watched) = &mut self.watched else {
            return;
        };
        self.seen.most = self.seen.most.max(watched.look().uses);
        if self.page.is_none() {
            let pages = watched.pids().into_iter().filter_map(page);
            self.page = pages.into_iter().next();
        }
    }

    /// The counts until now. The page of a program that is gone tells of its last pause.
    pub(super) fn counted(&self) -> Counted {
        let view = self.page.as_ref().and_then(|page| page.view().ok());
        let totals = view.as_ref().and_then(|view| view.totals());
        let process = view.as_ref().and_then(|view| view.process());
        Counted {
            faults: totals.map(|totals| totals.major_faults),
            stalls: process
                .zip(totals)
                .map(|(all, within)| (all.stalls, within.stalls)),
            ..self.seen
        }
    }
}

fn page(pid: i32) -> Option<Page> {
    Page::of(&Process::new(u32::try_from(pid).ok()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_off_the_log() {
        let log = "[1.2s][info][gc] GC(3) Pause Young (Normal) (Evacuation) 180M->145M(443M) 119.175ms\n\
                   [1.3s][info][gc] GC(4) Concurrent Mark Cycle 51.2ms\n\
                   [1.3s][info][gc] GC(4) Pause Remark 3M->3M(9M) 1.5ms\n\
                   [1.4s][info][gc] GC(5) Pause Full (System.gc()) 9M->1M(8M) 2.5ms\n\
                   [1.5s][info][gc] GC(6) Pause Full (Sys";
        let logged = Logged::of(log);
        assert_eq!((logged.young, logged.full), (1.0, 1.0));
        assert!((logged.paused - 123.175).abs() < 1e-9 && logged.longest == 119.175);
    }

    #[test]
    fn without_an_agent_there_are_no_counts_within_pauses() {
        let mut watch = Watch::new(false);
        watch.look(std::process::id());
        let counted = watch.counted();
        assert!(counted.most > 0 && counted.faults.is_none() && counted.stalls.is_none());
    }
}
