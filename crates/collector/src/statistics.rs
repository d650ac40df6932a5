//! Statistics of all collections. Durations, bytes.

use crate::cycle::Record;
use plimsoll_heap::{Heap, SweepStatistics};
use std::time::Duration;

/// A collection of fewer bytes does not show how long others take.
const MUCH: u64 = 1 << 20;

/// For how long a collection stopped the world.
#[derive(Default)]
struct Took {
    /// Bytes on which that depends.
    bytes: u64,
    /// All pauses.
    still: Duration,
    /// The part of them that depends on threads and static data.
    roots: Duration,
}

/// Sums over the life of a heap. Guarded by the lock of the front end.
#[derive(Default)]
pub struct Statistics {
    /// Collections so far.
    pub collections: u64,
    /// Time in all collections.
    pub total: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// The last pause.
    pub last_pause: Duration,
    /// Major faults during collections.
    pub faults: i64,
    /// Superpages in swap, as of the last collection.
    pub absent: usize,
    /// How many of these were replaced by their summaries.
    pub summaries: u64,
    /// Bytes of dead objects that all collections found.
    pub reclaimed: u64,
    /// Bytes of dead objects that the last collection found.
    pub reclaimed_last: u64,
    /// The most bytes that the heap ever had.
    pub obtained: usize,
    /// Bytes ever allocated, as of the last collection.
    pub allocated_before: u64,
    /// The last whole collection, with the live bytes that it marked.
    whole: Took,
    /// The last collection of young objects, with the bytes that had been allocated before it.
    young: Took,
    /// The smoothed time that a stop takes without marking: until all threads stand still, and for the
    /// roots; `None` before the first one.
    overhead: Option<Duration>,
    /// The sweep of the last collection.
    last: SweepStatistics,
    /// The last collection was incremental.
    in_steps: bool,
}

impl Statistics {
    /// Adds a collection that ended when `allocated` bytes had ever been allocated.
    pub(crate) fn record(&mut self, record: &Record, allocated: u64) {
        let work = &record.work;
        let live = work.swept.live;
        self.collections += 1;
        self.total += record.whole;
        let (took, bytes) = if work.young {
            (&mut self.young, allocated - self.allocated_before)
        } else {
            (&mut self.whole, live)
        };
        *took = Took {
            bytes,
            still: record.still,
            roots: record.roots,
        };
        self.longest = self.longest.max(record.pause);
        self.last_pause = record.pause;
        self.absent = work.residency.absent;
        self.summaries = work.marking.replayed;
        self.faults += record.faults;
        self.reclaimed_last =
            (self.last.live + allocated - self.allocated_before).saturating_sub(live);
        self.reclaimed += self.reclaimed_last;
        self.allocated_before = allocated;
        self.last = work.swept;
        self.in_steps = record.steps > 1;
        self.obtained = self.obtained.max(work.size);
    }

    /// Bytes alive after the last collection.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.last.live
    }

    /// Live objects after the last collection.
    pub(crate) fn objects(&self) -> u64 {
        self.last.objects
    }

    /// Whether the last collection may have left dead objects, because it was incremental.
    pub(crate) fn was_in_steps(&self) -> bool {
        self.in_steps
    }

    /// How many bytes of live objects the last whole collection marked per second.
    #[must_use]
    pub fn speed(&self) -> Option<u64> {
        let (live, took) = (self.whole.bytes as f64, self.whole.still.as_secs_f64());
        (took > 0.0).then(|| ((live / took) as u64).max(1))
    }

    /// Adds the time that a stop took without marking.
    pub(crate) fn stopped(&mut self, overhead: Duration) {
        self.overhead = Some(match self.overhead {
            Some(before) => (before * 3 + overhead) / 4,
            None => overhead,
        });
    }

    /// The time that a stop takes without marking, smoothed.
    pub(crate) fn overhead(&self) -> Duration {
        self.overhead.unwrap_or_default()
    }

    /// Roughly the longest time for which a collection in one pause would mark now, without the roots.
    pub(crate) fn expected(&self, heap: &Heap, young: bool) -> Duration {
        let new = heap.allocated() - self.allocated_before;
        let (took, most) = if young {
            (&self.young, new)
        } else {
            (&self.whole, self.last.live + new)
        };
        let marking = took.still.saturating_sub(took.roots);
        if took.bytes < MUCH {
            return marking;
        }
        marking.mul_f64(most as f64 / took.bytes as f64)
    }
}
