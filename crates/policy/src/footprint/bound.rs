//! The bound of a heap, the room that it leaves to the heap, and the margin that the heap leaves to
//! other memory.

use plimsoll_unit::{Bytes, Nanos};

/// Where nothing can be paged out, a heap takes at most one part in this many of what is left.
const LAST_PART: u64 = 4;

/// Memory left free in a domain of this capacity, for the needs of a collection itself: a 16th,
/// between 1 and 32 MiB.
pub fn reserve(capacity: Bytes) -> Bytes {
    (capacity / 16).clamp(Bytes::mib(1), Bytes::mib(32))
}

/// The bound of a heap and the distance to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// No known bound.
    None,
    /// A broker's grant: the largest size of the heap.
    Granted(Bytes),
    /// The machine or a group. Free memory includes the resident free memory of the heap.
    Domain {
        /// Its whole memory.
        capacity: Bytes,
        /// Its free memory.
        free: Bytes,
    },
    /// A domain where nothing can be paged out: a process that exceeds the capacity is killed.
    Cliff {
        /// Free memory, including the resident free memory of the heap.
        left: Bytes,
        /// The part of `left` that is not reserved for large objects that were not touched yet.
        free: Bytes,
        /// The part of `left` that stays for other memory.
        margin: Bytes,
        /// A broker's grant in addition; the maximum when there is none.
        granted: Bytes,
    },
}

/// Whether exceeding a domain of this capacity kills, when `pageable` of it can be paged out.
pub fn is_cliff(capacity: Bytes, pageable: Bytes) -> bool {
    pageable < reserve(capacity)
}

/// The memory beside a heap in its domain, and its growth. Where nothing can be paged out, there
/// must be room for this memory at the time when the heap has looked again and collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Time of the last look, and the memory found then.
    last: Option<(Nanos, Bytes)>,
    /// Growth in bytes per second.
    rate: f64,
}

impl Beside {
    /// Time to look again and to collect, s.
    const REACTION: f64 = 0.25;
    /// Half-life of a growth that ended, s.
    const MEMORY: f64 = 1.0;
    /// Shorter times cannot tell growth from noise, s.
    const SHORTEST: f64 = 0.05;

    /// Notes its size at time `now`.
    pub fn look(&mut self, now: Nanos, bytes: Bytes) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, bytes));
            return;
        };
        let passed = (now - then).0 as f64 / 1e9;
        if passed < Beside::SHORTEST {
            return;
        }
        let fresh = (bytes - before).0 as f64 / passed;
        let forgotten = self.rate * 0.5f64.powf(passed / Beside::MEMORY);
        self.rate = fresh.max(forgotten);
        self.last = Some((now, bytes));
    }

    /// Memory to leave to it in a domain of this capacity: the reserve plus its growth, the growth
    /// being at most an 8th of the capacity.
    pub fn margin(&self, capacity: Bytes) -> Bytes {
        let growth = Bytes((self.rate * Beside::REACTION) as u64);
        reserve(capacity) + growth.min(capacity / 8)
    }
}

impl Bound {
    /// By how much a heap with this much resident memory may grow.
    pub fn room(&self, resident: Bytes) -> Bytes {
        match *self {
            Bound::None => Bytes::MAX,
            Bound::Granted(heap) => heap - resident,
            // Other programs want some of it as well, and the kernel begins to reclaim before all
            // is used.
            Bound::Domain { capacity, free } => (free - reserve(capacity)) / 4 * 3,
            Bound::Cliff {
                free,
                margin,
                granted,
                ..
            } => ((free - margin) / 4 * 3).min(granted - resident),
        }
    }

    /// Memory that a heap may always take when it has no place for an object after a collection,
    /// where an excess kills; `None` elsewhere.
    pub fn last(&self) -> Option<Bytes> {
        match *self {
            Bound::Cliff { left, margin, .. } => Some((left - margin / 2) / LAST_PART),
            _ => None,
        }
    }

    /// The bound after the heap has taken `more` bytes (released them if negative).
    pub fn after(self, more: i64) -> Bound {
        let without = |bytes: Bytes| Bytes(bytes.0.saturating_add_signed(-more));
        match self {
            Bound::Cliff {
                left,
                free,
                margin,
                granted,
            } => Bound::Cliff {
                left: without(left),
                free: without(free),
                margin,
                granted,
            },
            other => other,
        }
    }

    /// Whether an excess kills.
    pub fn is_cliff(&self) -> bool {
        matches!(self, Bound::Cliff { .. })
    }
}
