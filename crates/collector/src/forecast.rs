//! How long a collection in one pause would stop the world now, as the last ones did.

use crate::cycle::Record;
use plimsoll_unit::Bytes;
use std::time::Duration;

/// A smaller collection does not show how long others take.
const MUCH: Bytes = Bytes::mib(1);

/// For how long a collection stopped the world.
#[derive(Default)]
struct Took {
    /// The memory on which that depends.
    bytes: Bytes,
    /// All pauses.
    still: Duration,
    /// The part of them that depends on threads and static data.
    roots: Duration,
}

/// The measured pauses of the last collections.
#[derive(Default)]
pub(crate) struct Forecast {
    /// The last whole collection, with the live bytes that it marked.
    whole: Took,
    /// The last collection of young objects, with the bytes that had been allocated before it.
    young: Took,
    /// The smoothed time that a stop takes without marking: until all threads stand still, and for the
    /// roots; `None` before the first one.
    overhead: Option<Duration>,
}

impl Forecast {
    /// Notes a collection whose time depends on `bytes`.
    pub(crate) fn record(&mut self, record: &Record, bytes: Bytes) {
        let took = if record.work.young {
            &mut self.young
        } else {
            &mut self.whole
        };
        *took = Took {
            bytes,
            still: record.still,
            roots: record.roots,
        };
    }

    /// How many bytes of live objects the last whole collection marked per second.
    pub(crate) fn speed(&self) -> Option<u64> {
        let (live, took) = (self.whole.bytes.0 as f64, self.whole.still.as_secs_f64());
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

    /// Roughly the longest time for which a collection in one pause would mark now, without the roots;
    /// `bytes`: those on which its time depends.
    pub(crate) fn marking(&self, young: bool, bytes: Bytes) -> Duration {
        let took = if young { &self.young } else { &self.whole };
        let marking = took.still.saturating_sub(took.roots);
        if took.bytes < MUCH {
            return marking;
        }
        marking.mul_f64(bytes.0 as f64 / took.bytes.0 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marking_takes_as_long_as_there_are_bytes_to_mark() {
        let took = |bytes| Took {
            bytes,
            still: Duration::from_millis(30),
            roots: Duration::from_millis(10),
        };
        let forecast = Forecast {
            whole: took(MUCH * 4),
            young: took(MUCH / 2),
            overhead: None,
        };
        let millis = |young, bytes| forecast.marking(young, bytes).as_millis();
        assert_eq!(millis(false, MUCH * 8), 40);
        assert_eq!(millis(true, MUCH * 8), 20, "of few bytes nothing is known");
    }

    #[test]
    fn the_overhead_is_smoothed() {
        let mut forecast = Forecast::default();
        for (took, smoothed) in [(8, 8), (4, 7)] {
            forecast.stopped(Duration::from_millis(took));
            assert_eq!(forecast.overhead(), Duration::from_millis(smoothed));
        }
    }
}
