//! What bounds a heap, how much room that leaves it, and what it leaves to what is beside it.

/// Where nothing can be paged out, no more than this part of what is left.
const LAST_PART: u64 = 4;

/// What is left free in a domain of that capacity, for what a collection itself needs: a 16th,
/// within 1 and 32 MiB.
pub fn reserve(capacity: u64) -> u64 {
    (capacity / 16).clamp(1 << 20, 32 << 20)
}

/// What bounds a heap, and how far away that is. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing that is known.
    None,
    /// A broker: what the heap may be.
    Granted(u64),
    /// The machine or a group: its capacity, and what of that is free, with what the heap has free in memory.
    Domain {
        /// All of it.
        capacity: u64,
        /// Free.
        free: u64,
    },
    /// The same where nothing can be paged out: who goes beyond it is killed.
    Cliff {
        /// Free, with what the heap has free in memory.
        left: u64,
        /// Of this, what large objects will not take that were not touched yet.
        free: u64,
        /// Of this, what is left to others.
        margin: u64,
        /// What a broker grants the heap besides, or the most that there is.
        granted: u64,
    },
}

/// Whether an excess in a domain of that capacity is death, where so much of it can be paged out.
pub fn is_cliff(capacity: u64, pageable: u64) -> bool {
    pageable < reserve(capacity)
}

/// What is beside a heap in its domain, and how fast it grows: where nothing can be paged out there has to
/// be room for what it will be when the heap has looked again and collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// When it was looked at last, ns, and how much it was.
    last: Option<(u64, u64)>,
    /// Bytes in a second.
    rate: f64,
}

impl Beside {
    /// So long it takes to look again and to collect, s.
    const REACTION: f64 = 0.25;
    /// In so much time a growth that ended is half forgotten, s.
    const MEMORY: f64 = 1.0;
    /// In less nothing is told from noise, s.
    const SHORTEST: f64 = 0.05;

    /// It is so much, in bytes, at a time in ns.
    pub fn look(&mut self, now: u64, bytes: u64) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, bytes));
            return;
        };
        let passed = now.saturating_sub(then) as f64 / 1e9;
        if passed < Beside::SHORTEST {
            return;
        }
        let fresh = bytes.saturating_sub(before) as f64 / passed;
        let forgotten = self.rate * 0.5f64.powf(passed / Beside::MEMORY);
        self.rate = fresh.max(forgotten);
        self.last = Some((now, bytes));
    }

    /// What to leave to it in a domain of that capacity: the reserve, and what it grows by, an 8th at the
    /// most.
    pub fn margin(&self, capacity: u64) -> u64 {
        let growth = (self.rate * Beside::REACTION) as u64;
        reserve(capacity) + growth.min(capacity / 8)
    }
}

impl Bound {
    /// By how much a heap may grow that has so much in memory.
    pub fn room(&self, resident: u64) -> u64 {
        match *self {
            Bound::None => u64::MAX,
            Bound::Granted(heap) => heap.saturating_sub(resident),
            // Others want some of it, too, and the kernel begins to take before all is gone.
            Bound::Domain { capacity, free } => free.saturating_sub(reserve(capacity)) / 4 * 3,
            Bound::Cliff {
                free,
                margin,
                granted,
                ..
            } => {
                let room = free.saturating_sub(margin) / 4 * 3;
                room.min(granted.saturating_sub(resident))
            }
        }
    }

    /// What a heap may take in any case that has no place for an object after a collection, where an excess
    /// is death; none, where it is not.
    pub fn last(&self) -> Option<u64> {
        match *self {
            Bound::Cliff { left, margin, .. } => Some(left.saturating_sub(margin / 2) / LAST_PART),
            _ => None,
        }
    }

    /// The same when the heap has taken so much more since, or less.
    pub fn after(self, more: i64) -> Bound {
        let without = |bytes: u64| bytes.saturating_add_signed(-more);
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

    /// Whether an excess is death.
    pub fn is_cliff(&self) -> bool {
        matches!(self, Bound::Cliff { .. })
    }
}
