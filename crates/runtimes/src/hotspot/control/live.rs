//! The bytes that live in a heap, as far as its counters tell.

use super::observation::Seen;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// How long the lowest used heap is remembered.
const LEAST_WINDOW: Nanos = Nanos::seconds(4);

/// The live bytes of one machine.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The live bytes, as far as they are known.
    pub(super) bytes: Bytes,
    /// The bytes that the last collection that stopped the program left; 0 until there was one.
    compact: Bytes,
    /// Whether the whole heap was ever collected.
    pub(super) whole_seen: bool,
    /// Begin and lowest used heap of the current window and of the one before.
    leasts: [(Nanos, Bytes); 2],
}

impl Live {
    /// Begins with the old generation of this moment.
    pub(super) fn begin(seen: &Seen) -> Live {
        Live {
            bytes: seen.heap.old.used,
            leasts: [(seen.now, Bytes::MAX), (Nanos::ZERO, Bytes::ZERO)],
            ..Live::default()
        }
    }

    /// Takes in one moment. The memory that a collection leaves is live if it `stopped` the program. Between
    /// cycles of G1, and without generations, the old generation holds garbage too, so the lowest use of the
    /// last seconds is taken.
    pub(super) fn look(&mut self, seen: &Seen, levers: &Levers, stopped: bool) {
        let [_, full, concurrent] = seen.heap.work.map(|work| work.invocations);
        self.whole_seen |= (full | concurrent) > 0;
        let used = seen.heap.old.used;
        let has_cycles = match levers.sized_by {
            SizedBy::HeapRatios => true,
            SizedBy::Fixed => levers.concurrent,
            _ => false,
        };
        match levers.sized_by {
            SizedBy::SoftMax => self.bytes = self.least(seen),
            _ if has_cycles && !stopped => self.bytes = self.least(seen).max(Bytes::mib(1)),
            _ => {
                if stopped && used > Bytes::ZERO {
                    (self.bytes, self.compact) = (used, used);
                    self.leasts = [(seen.now, used), (Nanos::ZERO, Bytes::ZERO)];
                }
                self.bytes = self.bytes.min(used).max(Bytes::mib(1));
            }
        }
    }

    /// The lowest used heap of the last one to two windows, with this moment.
    fn least(&mut self, seen: &Seen) -> Bytes {
        if seen.now - self.leasts[0].0 > LEAST_WINDOW {
            self.leasts[1] = self.leasts[0];
            self.leasts[0] = (seen.now, Bytes::MAX);
        }
        self.leasts[0].1 = self.leasts[0].1.min(seen.heap.old.used);
        let before = if self.leasts[1].0 > Nanos::ZERO {
            self.leasts[1].1
        } else {
            Bytes::MAX
        };
        self.leasts[0].1.min(before)
    }

    /// The live bytes. Until the whole heap was collected once, half of the young generation's use
    /// may be live.
    pub(super) fn estimate(&self, seen: &Seen) -> Bytes {
        if self.whole_seen {
            self.bytes
        } else {
            self.bytes.max(seen.heap.young.used / 2)
        }
    }

    /// The live bytes that a collection which stops the program will find: as many as the last one
    /// did, at most. Between two of them garbage counts as live, for minutes in a program that
    /// hardly works.
    pub(super) fn compact_estimate(&self, seen: &Seen) -> Bytes {
        match self.compact {
            Bytes::ZERO => self.estimate(seen),
            known => self.estimate(seen).min(known),
        }
    }
}
