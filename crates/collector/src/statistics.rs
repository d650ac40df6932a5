//! Statistics of all collections.

use crate::cycle::Record;
use crate::forecast::Forecast;
use plimsoll_heap::{Heap, SweepStatistics};
use plimsoll_unit::Bytes;
use std::time::Duration;

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
    /// Dead objects that all collections found.
    pub reclaimed: Bytes,
    /// Dead objects that the last collection found.
    pub reclaimed_last: Bytes,
    /// The most bytes that the heap ever had.
    pub obtained: usize,
    /// The memory ever allocated, as of the last collection.
    pub allocated_before: Bytes,
    /// How long the next collection will take, by the last ones.
    pub(crate) forecast: Forecast,
    /// The sweep of the last collection.
    last: SweepStatistics,
    /// The last collection was incremental.
    in_steps: bool,
}

impl Statistics {
    /// Adds a collection that ended when `allocated` had ever been allocated.
    pub(crate) fn record(&mut self, record: &Record, allocated: Bytes) {
        let work = &record.work;
        let live = work.swept.live;
        self.collections += 1;
        self.total += record.whole;
        let new = allocated - self.allocated_before;
        self.forecast
            .record(record, if work.young { new } else { live });
        self.longest = self.longest.max(record.pause);
        self.last_pause = record.pause;
        self.absent = work.residency.absent;
        self.summaries = work.marking.replayed;
        self.faults += record.faults;
        self.reclaimed_last = self.last.live + new - live;
        self.reclaimed += self.reclaimed_last;
        self.allocated_before = allocated;
        self.last = work.swept;
        self.in_steps = record.steps > 1;
        self.obtained = self.obtained.max(work.size);
    }

    /// The memory of objects that were alive after the last collection.
    #[must_use]
    pub fn live(&self) -> Bytes {
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
        self.forecast.speed()
    }

    /// Roughly the longest time for which a collection in one pause would mark now, without the roots.
    pub(crate) fn expected(&self, heap: &Heap, young: bool) -> Duration {
        let new = heap.allocated() - self.allocated_before;
        let old = if young { Bytes::ZERO } else { self.last.live };
        self.forecast.marking(young, old + new)
    }
}
