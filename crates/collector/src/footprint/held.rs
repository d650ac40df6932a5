//! The heap's superpages after the last collection, and the free ones that go back to the kernel.

use plimsoll_heap::{Central, Heap, SUPERPAGE};
use plimsoll_unit::Bytes;
use std::time::{Duration, Instant};

/// While memory is not short, free memory goes back to the kernel when it was not needed for at least
/// this long, and at this many collections: each page that is needed again costs a fault.
const UNUSED: Duration = Duration::from_secs(2);
const UNUSED_AT: u32 = 3;

/// The superpages that the heap has, as of the last collection.
#[derive(Default)]
pub(crate) struct Held {
    /// Superpages in swap.
    absent: usize,
    /// Superpages with objects.
    used: usize,
    /// Superpages that are free, but in memory.
    idle: usize,
    unused: Unused,
}

impl Held {
    /// A collection left superpages: `absent` in swap, `used` with objects, and `idle` free in memory.
    pub(crate) fn settle(&mut self, absent: usize, used: usize, idle: usize) {
        (self.absent, self.used, self.idle) = (absent, used, idle);
    }

    /// Superpages in swap.
    pub(crate) fn absent(&self) -> usize {
        self.absent
    }

    /// All free memory was given back.
    pub(crate) fn gave_all_back(&mut self) {
        self.idle = 0;
    }

    /// The superpages with objects that are in memory.
    pub(super) fn present(&self, central: &Central) -> Bytes {
        Bytes::from(central.used().saturating_sub(self.absent) * SUPERPAGE)
    }

    /// The part of the heap that is in memory, as far as is known without a query to the kernel.
    pub(crate) fn resident(&self, central: &Central) -> Bytes {
        let superpages = central.used() + self.idle(central);
        Bytes::from(superpages.saturating_sub(self.absent) * SUPERPAGE)
    }

    /// The memory of free superpages.
    pub(super) fn free(&self, central: &Central) -> Bytes {
        Bytes::from(self.idle(central) * SUPERPAGE)
    }

    /// Superpages that are free but in memory: the heap has grown into some of them since the last
    /// collection.
    fn idle(&self, central: &Central) -> usize {
        let grown = central.used().saturating_sub(self.used);
        self.idle.saturating_sub(grown)
    }

    /// Gives back free memory that will not be used before the next collection; the heap is to fill
    /// `keep` superpages until then. Returns how many superpages it gave back.
    pub(crate) fn give_back_unused(
        &mut self,
        heap: &Heap,
        central: &mut Central,
        mut keep: usize,
        scarce: bool,
    ) -> usize {
        let free = self.idle.saturating_sub(keep);
        if !scarce {
            keep += free - self.unused.due(Instant::now(), free);
        }
        if self.idle <= keep {
            return 0;
        }
        self.idle = keep;
        central.give_back(heap, keep).0
    }
}

/// How much free memory was not needed for a while.
#[derive(Default)]
struct Unused {
    /// Since when this is looked at; `None` before the first collection.
    since: Option<Instant>,
    /// Collections since then.
    collections: u32,
    /// The fewest superpages that the heap had free beyond what it was to fill.
    least: usize,
}

impl Unused {
    /// A collection ended at `now`, and left `free` superpages beyond what the heap is to fill.
    /// Returns how many of them to give back.
    fn due(&mut self, now: Instant, free: usize) -> usize {
        let since = *self.since.get_or_insert(now);
        if self.collections == 0 {
            self.least = free;
        }
        self.least = self.least.min(free);
        self.collections += 1;
        if self.collections < UNUSED_AT || now.duration_since(since) < UNUSED {
            return 0;
        }
        let due = self.least;
        *self = Unused {
            since: Some(now),
            ..Unused::default()
        };
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that was used again in the meantime stays, however often there is a collection.
    #[test]
    fn free_memory_goes_back_when_it_was_not_needed_for_a_while() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut unused = Unused::default();
        let due: Vec<usize> = [
            (0, 90),
            (1, 40),
            (1, 70),
            (2, 80),
            (3, 60),
            (4, 50),
            (4, 55),
        ]
        .into_iter()
        .map(|(seconds, free)| unused.due(at(seconds), free))
        .collect();
        assert_eq!(due, [0, 0, 0, 40, 0, 0, 50]);
        // A program that hardly collects gives back at its third collection.
        let mut unused = Unused::default();
        let due = [0, 60, 120].map(|seconds| unused.due(at(seconds), 9));
        assert_eq!(due, [0, 0, 9]);
    }
}
