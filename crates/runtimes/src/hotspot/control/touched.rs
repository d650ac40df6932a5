//! How much of a heap with generations can have been touched. Much of it is committed long before.

use super::collections::News;
use super::observation::Seen;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use crate::hotspot::snapshot::Snapshot;
use plimsoll_unit::Bytes;

/// The touched part of each generation. No part exceeds the generation's committed size at the last
/// look: memory that a generation gave up is touched again when it grows back.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// The highest use of the old generation since it was last shrunk.
    pub(super) old: Bytes,
    /// How far from its start the young generation was ever filled since it was committed.
    pub(super) young: Bytes,
    /// The size of the young generation at the last look.
    young_capacity: Bytes,
}

impl Touched {
    /// Takes in one moment. Eden is filled from its start, and a shrinking young generation gives its end
    /// back.
    pub(super) fn look(&mut self, seen: &Seen, news: News) {
        let (old, young) = (&seen.heap.old, &seen.heap.young);
        self.old = self.old.min(old.capacity).max(old.used);
        let filled = news.young > 0 && young.capacity == self.young_capacity;
        let eden = if filled {
            young.first_capacity
        } else {
            Bytes::ZERO
        };
        self.young = self.young.min(young.capacity).max(eden);
        self.young_capacity = young.capacity;
    }

    /// The part of the old generation that is resident. An agent gives back what is free in it, at the end of
    /// each pause.
    pub(super) fn old_resident(&self, seen: &Seen) -> Bytes {
        let old = &seen.heap.old;
        if seen.frees_garbage() {
            old.used
        } else {
            self.old.min(old.capacity)
        }
    }

    /// The most of this heap that can have been touched. With generations the old one is filled from
    /// its start.
    pub(super) fn most(&self, heap: &Snapshot, levers: &Levers) -> Bytes {
        match levers.sized_by {
            SizedBy::OldRatios { .. } | SizedBy::OldOnly => {
                let old = self.old.max(heap.old.used);
                old.min(heap.old.capacity) + heap.young.capacity
            }
            _ => heap.committed(),
        }
    }
}
