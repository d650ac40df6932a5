//! Counting what happens, and the outcome.

use super::heap::{Collection, Kind};
use super::objects::Heap;
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
    /// Of the threads that have ended.
    pub turnarounds: Vec<u64>,
    /// Of the threads that have ended and allocated anything, nanoseconds per byte.
    pub pauses: Vec<f64>,
}

/// How the values of the threads of a program are spread: the numbers of a box plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Quartiles {
    /// The least.
    pub least: f64,
    /// A quarter is not above it.
    pub lower: f64,
    /// Half is not above it.
    pub median: f64,
    /// Three quarters are not above it.
    pub upper: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Quartiles {
    /// Of any values, by linear interpolation between neighbours; all zero where there is no value.
    pub fn of(values: &[f64]) -> Quartiles {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * sorted.len().saturating_sub(1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            match (sorted.get(below), sorted.get(above)) {
                (Some(below), Some(above)) => below + (above - below) * place.fract(),
                _ => 0.0,
            }
        };
        Quartiles {
            least: at(0.0),
            lower: at(0.25),
            median: at(0.5),
            upper: at(0.75),
            greatest: at(1.0),
        }
    }
}

/// What a simulation shows. Sizes are bytes and times nanoseconds, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// Threads; a number.
    pub threads: u64,
    /// Events that they came to; a number.
    pub events: u64,
    /// Objects that they allocated; a number.
    pub objects: u64,
    /// Bytes that they allocated.
    pub allocated: u64,
    /// The most that was live at once under this scheduler.
    pub largest_live: u64,
    /// Live at the end.
    pub live: u64,
    /// Dead and not collected at the end.
    pub garbage: u64,
    /// Freed by collections.
    pub freed: u64,
    /// Size of the heap.
    pub heap: u64,
    /// Collections of the young objects; a number.
    pub minor: u64,
    /// Collections of these and of some regions of old ones; a number.
    pub mixed: u64,
    /// Collections of the whole heap; a number.
    pub full: u64,
    /// Marked or copied by collections (Table 2's neighbour: V_gc).
    pub work: u64,
    /// The most that one collection marked or copied.
    pub greatest_work: u64,
    /// The part of the work that was marked where it lay. The rest was copied.
    pub marked: u64,
    /// The part of what was marked that was then moved together.
    pub compacted: u64,
    /// Dead and live objects that were swept.
    pub swept: u64,
    /// Marked while the threads went on: no pause and no time contains it.
    pub concurrent: u64,
    /// In cells and regions that are larger than what is in them, at the end.
    pub fragmented: u64,
    /// The most of that after a collection.
    pub greatest_fragmented: u64,
    /// Time of all pauses.
    pub paused: u64,
    /// Time of the longest pause.
    pub greatest_pause: u64,
    /// Of each thread that allocated anything: the pauses in its life, nanoseconds per byte that it allocated
    /// (Figure 4).
    pub thread_pauses: Quartiles,
    /// Contentions for monitors; a number.
    pub contentions: u64,
    /// Switches of threads; a number.
    pub switches: u64,
    /// Dispatches of threads, switches or not; a number.
    pub dispatches: u64,
    /// Time that the threads computed.
    pub computed: u64,
    /// Total execution time by the formula of section 5.4.3.
    pub execution: u64,
    /// Time from the beginning to the end of the last thread. With one processor that is never idle, it is
    /// the execution time.
    pub elapsed: u64,
    /// Average of the threads' turnarounds.
    pub turnaround: u64,
    /// The most dispatches of other threads that a ready thread has waited for; a number.
    pub longest_wait: u64,
    /// The longest that a ready thread has waited.
    pub longest_wait_time: u64,
    /// Threads that were woken because nothing else could go on: they had been notified or unparked by a
    /// thread that came too early under this scheduler, or outside of the trace. A number.
    pub helped: u64,
    /// Waits that did not block, because the thread had been notified before it came there under this
    /// scheduler; a number.
    #[serde(default)]
    pub passed: u64,
    /// Threads whose streams stop before their end; a number.
    pub cut: u64,
    /// Objects that died and were not allocated, because that part of the trace was lost, or because the
    /// program was stopped before; a number.
    #[serde(default)]
    pub unborn: u64,
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
            heap: settings.heap,
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

    /// Collections, of any kind.
    pub fn collections(&self) -> u64 {
        self.minor + self.mixed + self.full
    }

    /// Mark/cons: bytes of collection work for each allocated byte (section 5.2).
    pub fn mark_cons(&self) -> f64 {
        part(self.work, self.allocated)
    }

    /// The average pause: work of a collection divided by the heap's size (section 5.3.1).
    pub fn average_pause(&self) -> f64 {
        part(self.work, self.heap) / self.collections().max(1) as f64
    }

    /// The greatest pause, in the same unit.
    pub fn greatest_pause(&self) -> f64 {
        part(self.greatest_work, self.heap)
    }
}

fn part(of: u64, whole: u64) -> f64 {
    of as f64 / whole.max(1) as f64
}
