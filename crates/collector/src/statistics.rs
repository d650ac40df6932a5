//! Statistics of all collections. Durations, bytes.

use crate::cycle::Record;
use plimsoll_heap::{Census, Heap};
use std::time::Duration;

/// A collection of fewer bytes does not show how long others take.
const MUCH: u64 = 1 << 20;

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
    /// The live bytes that the last whole collection marked, and for how long the world was stopped
    /// for that.
    went_through: (u64, Duration),
    /// The same for the last collection of young objects, counting the bytes that had been
    /// allocated before it.
    went_through_young: (u64, Duration),
    /// The census of the last collection.
    last: Census,
    /// The last collection was incremental.
    in_steps: bool,
}

impl Statistics {
    /// Adds a collection that ended when `allocated` bytes had ever been allocated.
    pub(crate) fn record(&mut self, record: &Record, allocated: u64) {
        let work = &record.work;
        let live = work.census.live;
        self.collections += 1;
        self.total += record.whole;
        match work.young {
            true => self.went_through_young = (allocated - self.allocated_before, record.still),
            false => self.went_through = (live, record.still),
        }
        self.longest = self.longest.max(record.pause);
        self.last_pause = record.pause;
        self.absent = work.residency.absent;
        self.summaries = work.marking.replayed;
        self.faults += record.faults;
        self.reclaimed_last =
            (self.last.live + allocated - self.allocated_before).saturating_sub(live);
        self.reclaimed += self.reclaimed_last;
        self.allocated_before = allocated;
        self.last = work.census;
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
        let (live, took) = (
            self.went_through.0 as f64,
            self.went_through.1.as_secs_f64(),
        );
        (took > 0.0).then(|| ((live / took) as u64).max(1))
    }

    /// Roughly the longest time for which a collection in one pause would stop the world now.
    pub(crate) fn expected(&self, heap: &Heap, young: bool) -> Duration {
        let new = heap.allocated() - self.allocated_before;
        let ((bytes, still), most) = match young {
            true => (self.went_through_young, new),
            false => (self.went_through, self.last.live + new),
        };
        if bytes < MUCH {
            return still;
        }
        still.mul_f64(most as f64 / bytes as f64)
    }
}
