//! The numbers of an outcome.

use plimsoll_sim::threads::{Outcome, Quartiles};

/// Numbers that both simulators must agree on beside the log.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) live: u64,
    pub(crate) largest_live: u64,
    pub(crate) work: u64,
    pub(crate) greatest_work: u64,
    /// All pauses and the greatest.
    pub(crate) paused: (u64, u64),
    pub(crate) thread_pauses: Quartiles,
    /// Marked by pauses, moved then, swept, and marked while the threads went on.
    pub(crate) parts: [u64; 4],
    /// At the end, and at most after a collection.
    pub(crate) fragmented: (u64, u64),
    /// Minor, mixed and full ones.
    pub(crate) collections: [u64; 3],
    pub(crate) contentions: u64,
    pub(crate) switches: u64,
    pub(crate) dispatches: u64,
    pub(crate) computed: u64,
    pub(crate) execution: u64,
    pub(crate) elapsed: u64,
    pub(crate) turnaround: u64,
    /// In dispatches and in time.
    pub(crate) longest_wait: (u64, u64),
    pub(crate) helped: u64,
    pub(crate) passed: u64,
    pub(crate) cut: u64,
    pub(crate) unborn: u64,
}

impl Numbers {
    /// Those of our outcome.
    pub(crate) fn of(outcome: &Outcome) -> Numbers {
        Numbers {
            allocated: outcome.allocated,
            freed: outcome.freed,
            live: outcome.live,
            largest_live: outcome.largest_live,
            work: outcome.work,
            greatest_work: outcome.greatest_work,
            paused: (outcome.paused, outcome.greatest_pause),
            thread_pauses: outcome.thread_pauses,
            parts: [
                outcome.marked,
                outcome.compacted,
                outcome.swept,
                outcome.concurrent,
            ],
            fragmented: (outcome.fragmented, outcome.greatest_fragmented),
            collections: [outcome.minor, outcome.mixed, outcome.full],
            contentions: outcome.contentions,
            switches: outcome.switches,
            dispatches: outcome.dispatches,
            computed: outcome.computed,
            execution: outcome.execution,
            elapsed: outcome.elapsed,
            turnaround: outcome.turnaround,
            longest_wait: (outcome.longest_wait, outcome.longest_wait_time),
            helped: outcome.helped,
            passed: outcome.passed,
            cut: outcome.cut,
            unborn: outcome.unborn,
        }
    }
}
