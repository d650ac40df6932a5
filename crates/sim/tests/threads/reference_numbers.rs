//! The numbers of an outcome.

use plimsoll_sim::threads::heap::{Collection, Kind};
use plimsoll_sim::threads::{Outcome, Quartiles};

/// Numbers that both simulators must agree on beside the log.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) heap: HeapNumbers,
    pub(crate) times: Times,
    pub(crate) schedule: Schedule,
}

/// The counts of the collector, in bytes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HeapNumbers {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) live: u64,
    pub(crate) largest_live: u64,
    pub(crate) work: u64,
    pub(crate) greatest_work: u64,
    /// Marked by pauses, moved then, swept, and marked while the threads went on.
    pub(crate) parts: [u64; 4],
    /// At the end, and at most after a collection.
    pub(crate) fragmented: (u64, u64),
    /// Minor, mixed and full collections; numbers.
    pub(crate) collections: [u64; 3],
    /// Objects that died but were never allocated; a number.
    pub(crate) unborn: u64,
}

/// Sums of times, nanoseconds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// All pauses and the greatest.
    pub(crate) paused: (u64, u64),
    pub(crate) thread_pauses: Quartiles,
    pub(crate) computed: u64,
    pub(crate) execution: u64,
    pub(crate) elapsed: u64,
    pub(crate) turnaround: u64,
}

/// The counts of the scheduler and the monitors.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) contentions: u64,
    pub(crate) switches: u64,
    pub(crate) dispatches: u64,
    /// In dispatches and in time.
    pub(crate) longest_wait: (u64, u64),
    pub(crate) helped: u64,
    pub(crate) passed: u64,
    pub(crate) cut: u64,
}

impl HeapNumbers {
    /// Adds a collection, after which `fragmented` bytes are lost.
    pub(crate) fn collected(&mut self, collection: &Collection, fragmented: u64) {
        let kind = match collection.kind {
            Kind::Minor => 0,
            Kind::Mixed => 1,
            Kind::Full => 2,
        };
        self.collections[kind] += 1;
        self.work += collection.work;
        self.greatest_work = self.greatest_work.max(collection.work);
        self.parts[0] += collection.marked;
        self.parts[1] += collection.compacted;
        self.parts[2] += collection.swept;
        self.parts[3] += collection.concurrent;
        self.fragmented.1 = self.fragmented.1.max(fragmented);
        self.freed += collection.freed;
    }

    fn of(outcome: &Outcome) -> HeapNumbers {
        HeapNumbers {
            allocated: outcome.allocated,
            freed: outcome.freed,
            live: outcome.live,
            largest_live: outcome.largest_live,
            work: outcome.work,
            greatest_work: outcome.greatest_work,
            parts: [
                outcome.marked,
                outcome.compacted,
                outcome.swept,
                outcome.concurrent,
            ],
            fragmented: (outcome.fragmented, outcome.greatest_fragmented),
            collections: [outcome.minor, outcome.mixed, outcome.full],
            unborn: outcome.unborn,
        }
    }
}

impl Times {
    /// Adds a pause.
    pub(crate) fn paused(&mut self, pause: u64) {
        let (all, greatest) = self.paused;
        self.paused = (all + pause, greatest.max(pause));
    }
}

impl Numbers {
    /// Those of our outcome.
    pub(crate) fn of(outcome: &Outcome) -> Numbers {
        Numbers {
            heap: HeapNumbers::of(outcome),
            times: Times {
                paused: (outcome.paused, outcome.greatest_pause),
                thread_pauses: outcome.thread_pauses,
                computed: outcome.computed,
                execution: outcome.execution,
                elapsed: outcome.elapsed,
                turnaround: outcome.turnaround,
            },
            schedule: Schedule {
                contentions: outcome.contentions,
                switches: outcome.switches,
                dispatches: outcome.dispatches,
                longest_wait: (outcome.longest_wait, outcome.longest_wait_time),
                helped: outcome.helped,
                passed: outcome.passed,
                cut: outcome.cut,
            },
        }
    }
}
