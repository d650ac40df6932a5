//! The collections of a machine, as its counters tell of them.

use super::observation::Seen;
use plimsoll_unit::{Bytes, Nanos};

/// The collections up to the last look. Changed by [`Collections::look`] alone.
#[derive(Debug, Default)]
pub(super) struct Collections {
    /// Young, full and concurrent ones; `None` before the first look.
    counts: Option<[u64; 3]>,
    /// The counter of bytes allocated between the last two of them.
    allocated_last: Bytes,
    /// The time of requested commands.
    asked: Nanos,
    /// Cycles. Meaningful for a collector without generations.
    pub(super) cycles: u64,
    /// Pauses.
    pub(super) pauses: u64,
    /// Young collections.
    pub(super) young: u64,
}

/// The collections between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// How many young ones there were.
    pub(super) young: u64,
    /// Whether there was one of the whole heap that stopped the program.
    pub(super) stopped: bool,
    /// Whether there was one of the whole heap, concurrent ones included.
    pub(super) whole: bool,
    /// Whether a cycle ended, for a collector without generations.
    pub(super) cycle: bool,
    /// Whether a command was requested.
    pub(super) asked: bool,
}

impl Collections {
    /// Whether nothing was looked at yet.
    pub(super) fn is_new(&self) -> bool {
        self.counts.is_none()
    }

    /// Takes in one moment. Returns the collections since the last one.
    pub(super) fn look(&mut self, seen: &Seen) -> News {
        let counts = seen.heap.work.map(|work| work.invocations);
        let before = self.counts.replace(counts).unwrap_or(counts);
        // A cycle has several pauses, so the counts do not tell cycles.
        let cycle = seen.heap.allocated_last != self.allocated_last;
        let news = News {
            young: counts[0].saturating_sub(before[0]),
            stopped: counts[1] != before[1],
            whole: counts[1..] != before[1..],
            cycle,
            asked: seen.asked != self.asked,
        };
        self.allocated_last = seen.heap.allocated_last;
        self.asked = seen.asked;
        self.cycles = self.cycles.saturating_add(u64::from(cycle));
        self.pauses = seen.heap.collections();
        self.young = counts[0];
        news
    }
}
