//! Collections of young objects, by sticky mark bits and the kernel's tracking of writes. They
//! happen by themselves where they are worth it ([`plimsoll_policy::generations`]). In incremental
//! mode, which a program asks for, most collections are of that kind, and the mode sets how long
//! pauses may be.

use crate::front_end::{Conditions, Stress};
use crate::pace;
use plimsoll_heap::{Heap, Residency, SUPERPAGE, Watch};
use plimsoll_policy::generations::{Ended, Generations};
use plimsoll_unit::{Bytes, Nanos};
use std::time::Duration;

/// In incremental mode, old objects are collected as well once this many times more lives than
/// after they were last collected.
const GROWTH: u64 = 2;

/// A heap of fewer bytes is collected as a whole.
const WORTH: usize = 4 << 20;

/// The cost of the first write to an armed superpage: a fault for each of its pages, 2
/// to 3 microseconds each on a virtual machine.
const WRITE: Duration = Duration::from_micros(10);

/// Whether collections may be of young objects, and statistics of the last ones. Guarded by the
/// lock of the front end.
#[derive(Default)]
pub(crate) struct Young {
    /// The program asked for incremental mode.
    pub(crate) on: bool,
    /// The user forbids both collections of young objects and incremental marking.
    pub(crate) forbidden: bool,
    /// The objects that lived after the last whole collection.
    live: Bytes,
    /// Decides whether a collection of young objects is worth it.
    generations: Generations,
    /// All superpages with marked objects are armed.
    watched: bool,
    /// The memory ever allocated as of the last collection.
    allocated: Bytes,
}

/// The state of the heap when everything is marked.
pub(crate) struct Now {
    /// Superpages in use.
    pub(crate) used: usize,
    /// The heap has enough holes, but hardly any superpage becomes free.
    pub(crate) ragged: bool,
    /// Watch for superpages that are not written to, because some may have to go to swap.
    pub(crate) evicts: bool,
    /// The approximate share of the bytes allocated since the last collection that is still alive.
    pub(crate) survival: f64,
}

impl Young {
    /// Whether the collection that begins, which the program did not ask for, is to be of young
    /// objects. `live`: the memory of those that lived after the last collection.
    pub(crate) fn is_next(&self, heap: &Heap, live: Bytes, conditions: &Conditions) -> bool {
        let may = self.watched
            && heap.is_tracked()
            && self.generations.count() < conditions.young_in_a_row
            && !conditions.whole;
        may && match conditions.stress {
            _ if self.on => live < self.live * GROWTH,
            Some(Stress { young, .. }) => young,
            None => self.generations.is_young(heap.allocated() - self.allocated),
        }
    }

    /// Which superpages to watch until the next collection, if any.
    pub(crate) fn watch(&mut self, now: &Now, conditions: &Conditions) -> Option<Watch> {
        // If there are many holes, new objects lie among old ones, and everything would have to be
        // scanned again.
        let worth = now.used * SUPERPAGE >= WORTH
            && !now.ragged
            && self.generations.may_be_young(now.survival);
        self.watched = !self.forbidden && (self.on || worth || conditions.stress.is_some());
        match (self.watched, now.evicts) {
            (_, true) => Some(Watch::Still),
            (true, false) => Some(Watch::Old),
            (false, false) => None,
        }
    }

    /// The approximate share of the bytes allocated since the last collection that is still alive, if
    /// `grown` more objects live than the `objects` that took `live` after it. It is an estimate,
    /// because before the sweep only objects are counted, not bytes.
    pub(crate) fn survival(&self, heap: &Heap, grown: u64, (objects, live): (u64, Bytes)) -> f64 {
        let grown = grown as f64 * live.0 as f64;
        let allocated = heap.allocated() - self.allocated;
        grown / (objects.max(1) as f64 * allocated.0.max(1) as f64)
    }

    /// Records the collection that just ended, and returns the figures by which it is judged.
    pub(crate) fn note(&mut self, ended: &pace::Ended<'_>) -> Ended {
        let before = std::mem::replace(&mut self.allocated, ended.allocated);
        let written = u32::try_from(ended.residency.written).unwrap_or(u32::MAX);
        let cost = ended.took + WRITE * written;
        Ended {
            cost: cost.into(),
            live: Bytes::from(ended.found.composite + ended.found.atomic),
            allocated: self.allocated - before,
        }
    }

    /// Whether the last collection was of young objects.
    pub(crate) fn was_last(&self) -> bool {
        self.generations.count() > 0
    }

    /// The mean cost of recent collections, including one that is not recorded yet.
    pub(crate) fn mean_cost(&self, young: bool, ended: &Ended) -> Nanos {
        self.generations.mean_cost(young, ended.cost)
    }

    /// Notes the end of a collection of young objects. Returns the most bytes to allocate until the
    /// next one; `None` in incremental mode, where this has no say.
    pub(crate) fn after_young(&mut self, ended: &Ended) -> Option<usize> {
        let left = self.generations.after_young(ended);
        (!self.on).then(|| usize::try_from(left.0).unwrap_or(usize::MAX))
    }

    /// Notes the end of a whole collection; `allowance` bytes may be allocated until the next.
    pub(crate) fn after_whole(&mut self, ended: &Ended, allowance: usize) {
        self.live = ended.live;
        self.generations.after_whole(ended, Bytes::from(allowance));
    }
}

/// Whether to watch for superpages that are not written to, because some may have to go to swap.
pub(crate) fn is_for_eviction(residency: &Residency, short: bool) -> bool {
    residency.absent > 0 || short
}
