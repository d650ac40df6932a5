//! Counting while a simulation runs.

use super::heap::{Collection, Kind};
use super::objects::Heap;
use super::outcome::{Outcome, Quartiles};
use super::settings::Settings;

/// Counts while the simulation runs. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub events: u64,
    pub computed: u64,
    pub paused: u64,
    pub greatest_pause: u64,
    pub contentions: u64,
    pub switches: u64,
    pub dispatches: u64,
    pub longest_wait: u64,
    pub longest_wait_time: u64,
    pub helped: u64,
    pub passed: u64,
    pub cut: u64,
    /// Times from start to end of the threads that have ended.
    pub turnarounds: Vec<u64>,
    /// Pauses of the threads that have ended and allocated anything, nanoseconds per byte.
    pub pauses: Vec<f64>,
}

impl Outcome {
    pub(super) fn new(tally: &Tally, heap: &Heap, elapsed: u64, settings: &Settings) -> Outcome {
        let (costs, used, fragmented) = (settings.costs, heap.used(), heap.fragmented());
        let unborn = heap.unborn();
        let heap = heap.count;
        // The formula's sum over collections is that over a collection of all their bytes.
        let all = Collection {
            kind: Kind::Full,
            work: heap.work,
            marked: heap.marked,
            compacted: heap.compacted,
            swept: heap.swept,
            concurrent: heap.concurrent,
            freed: heap.freed,
        };
        let overhead = costs.pause(&all)
            + u128::from(costs.contention) * u128::from(tally.contentions)
            + u128::from(costs.switch) * u128::from(tally.switches);
        let overhead = u64::try_from(overhead / 1000).unwrap_or(u64::MAX);
        let threads = tally.turnarounds.len() as u64;
        let sum: u128 = tally.turnarounds.iter().copied().map(u128::from).sum();
        Outcome {
            threads,
            events: tally.events,
            objects: heap.objects,
            allocated: heap.allocated,
            largest_live: heap.largest_live,
            live: heap.live,
            garbage: used - heap.live,
            freed: heap.freed,
            heap: settings.heap.0,
            minor: heap.minor,
            mixed: heap.mixed,
            full: heap.full,
            work: heap.work,
            greatest_work: heap.greatest_work,
            marked: heap.marked,
            compacted: heap.compacted,
            swept: heap.swept,
            concurrent: heap.concurrent,
            fragmented,
            greatest_fragmented: heap.greatest_fragmented,
            paused: tally.paused,
            greatest_pause: tally.greatest_pause,
            thread_pauses: Quartiles::of(&tally.pauses),
            contentions: tally.contentions,
            switches: tally.switches,
            dispatches: tally.dispatches,
            computed: tally.computed,
            execution: tally.computed.saturating_add(overhead),
            elapsed,
            turnaround: (sum / u128::from(threads.max(1))) as u64,
            longest_wait: tally.longest_wait,
            longest_wait_time: tally.longest_wait_time,
            helped: tally.helped,
            passed: tally.passed,
            cut: tally.cut,
            unborn,
        }
    }
}
