//! How fast a program allocates, as its collections tell.

use super::observation::Seen;
use plimsoll_unit::Nanos;

/// Measurements needed before the rate is reported.
const ENOUGH: u32 = 3;

/// The smoothed rate. A measurement is from one collection to the next.
#[derive(Debug, Default)]
pub(super) struct AllocationRate {
    /// Bytes per second; 0 before the first measurement.
    bytes: f64,
    /// Measurements so far.
    samples: u32,
    /// When the present measurement began.
    began: Nanos,
}

impl AllocationRate {
    /// Begins a measurement, without the one under way.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.began = now;
    }

    /// Takes in one moment, with this number of `collections` since the last one. Returns the bytes that
    /// the program allocated from the begin of the measurement to the last of these collections, if there
    /// was one.
    pub(super) fn look(&mut self, seen: &Seen, collections: u64) -> Option<f64> {
        let seconds = (seen.now - self.began).duration().as_secs_f64();
        if collections > 0 && seconds > 0.0 {
            let allocated = seen.heap.allocated_last.0 as f64 * collections as f64;
            let rate = allocated / seconds;
            self.samples = self.samples.saturating_add(1);
            self.bytes = if self.bytes == 0.0 {
                rate
            } else {
                self.bytes * 0.6 + rate * 0.4
            };
            self.begin(seen.now);
            return Some(allocated);
        }
        if seconds > 5.0 {
            // After a long time without a collection, the program cannot have allocated more than
            // its young generation.
            let eden = seen.heap.young.first_capacity;
            let bound = eden.max(seen.heap.old.capacity / 2).0 as f64 / seconds;
            self.bytes = self.bytes.min(bound);
            self.samples = self.samples.max(ENOUGH);
        }
        None
    }

    /// Bytes per second; 0 until measured.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Whether it was measured often enough to be reported.
    pub(super) fn is_known(&self) -> bool {
        self.samples >= ENOUGH
    }
}
