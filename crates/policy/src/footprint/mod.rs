//! How much memory a garbage-collected heap may take until its next collection. It keeps the
//! tightest of three bounds: the grant of a broker, the memory left in the machine or group, and
//! the memory that the kernel had to reclaim.

mod bound;
mod granted_stalls;

pub use bound::{Beside, Bound, is_cliff, reserve};
pub use granted_stalls::Within;

use crate::sizing::{DropIn, Ended, Sizing};
use plimsoll_unit::Bytes;

/// Most memory left unused below a broker's limit. The memory of a process outside its heap varies
/// by this much, however large the heap is.
const MOST_UNUSED: Bytes = Bytes::mib(24);

/// How far a release goes at most below the threshold: memory released beyond that is filled again
/// at once.
const MOST_RELEASED: Bytes = Bytes::mib(32);

/// Memory that a heap may always allocate between two collections; for a larger heap, this part of its
/// resident memory (one in `LEAST_PART`).
const LEAST: Bytes = Bytes::mib(1);
const LEAST_PART: u64 = 16;

/// To grow, a heap pages out at most one part in this many of itself at a time.
const SHED_PART: u64 = 4;

/// Use up to which the heap may grow: 15/16 of the limit (Walfield, section 5.1), and
/// closer to a large limit.
pub fn threshold(limit: Bytes) -> Bytes {
    limit - (limit / 16).min(MOST_UNUSED)
}

/// Use that a release goes down to: 7/8 of the threshold (Walfield, section 5.1), and
/// closer to a large threshold.
pub fn low_water(limit: Bytes) -> Bytes {
    let threshold = threshold(limit);
    threshold - (threshold / 8).min(MOST_RELEASED)
}

/// How much native memory is expected to grow at once, at most.
const MOST_SURPRISE: Bytes = Bytes::mib(160);

/// How much the native memory of a program may grow before collections can make room, for
/// example when direct buffers are filled at once. With little memory, a quarter of the capacity.
pub fn surprise(capacity: Bytes) -> Bytes {
    (capacity / 4).min(MOST_SURPRISE)
}

/// The same for a collector that gives memory back a second or more after it became free, where little of
/// the heap lives, so that more can be kept free: five eighths of the capacity with little memory, because
/// nothing comes back while native memory grows.
pub fn late_surprise(capacity: Bytes) -> Bytes {
    (capacity / 8 * 5).min(MOST_SURPRISE)
}

/// State after a collection.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The collection. Its `live` counts the part of the heap that is in use and resident.
    pub ended: Ended,
    /// Holes in the used part of the heap. They are filled before the heap grows.
    pub holes: Bytes,
    /// The bound of the heap.
    pub bound: Bound,
}

/// Orders until the next collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Room for the growth that the collector's rule wants.
    room: Bytes,
    /// By how much the heap exceeds its bound already.
    debt: Bytes,
    /// Allocated even without room.
    least: Bytes,
    /// Room for a heap that would grow by more than the collector's rule wants.
    pub most: Bytes,
    /// Memory to page out, cold pages first, because there is no room for them.
    pub shed: Bytes,
    /// Memory is short: free memory must be given back and the limit kept.
    pub short: bool,
}

impl Decision {
    /// By how much the heap may grow after `shed` was paged out.
    pub fn growth(&self, shed: Bytes) -> Bytes {
        (self.room + (shed - self.debt)).max(self.least)
    }
}

/// The sizing of one heap: a policy applied within a bound.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// State of the policy; valid as long as the kernel, and no broker, bounds the heap.
    sizing: DropIn,
}

impl Footprint {
    /// A collection ended.
    pub fn after(&mut self, seen: &Seen) -> Decision {
        let most = seen.bound.room(seen.ended.live);
        let least = least(seen.ended.live);
        let (room, wanted, debt) = match seen.bound {
            // The broker's grant belongs to the heap, whatever the kernel does meanwhile.
            Bound::Granted(heap) => {
                self.sizing = DropIn::default();
                let wanted = seen.ended.growth.min(most.max(least));
                (most, wanted, seen.ended.live - heap)
            }
            Bound::None => (
                self.within_sizing(seen, Bytes::MAX),
                seen.ended.growth,
                Bytes::ZERO,
            ),
            Bound::Cliff { .. } => return self.before_a_cliff(seen, most),
            Bound::Domain { capacity, .. } => {
                let room = self.within_sizing(seen, capacity).min(most);
                (room, seen.ended.growth, Bytes::ZERO)
            }
        };
        let missing = (wanted - room).min(seen.ended.live / SHED_PART);
        let short = room < seen.ended.growth;
        Decision {
            room,
            most: most.max(least),
            // Holes allow progress as well, but where memory is short some of them are in swap.
            least: if short { least } else { least - seen.holes },
            debt,
            shed: missing + debt,
            short,
        }
    }

    /// Decides where nothing can be paged out. Holes allow progress; for the rest a heap takes a
    /// part of what is left, repeatedly.
    fn before_a_cliff(&mut self, seen: &Seen, most: Bytes) -> Decision {
        self.sizing = DropIn::default();
        let progress = least(seen.ended.live).min(seen.bound.last().unwrap_or_default());
        let least = (progress - seen.holes).min(seen.ended.growth);
        Decision {
            room: most.min(seen.ended.growth),
            most: most.max(least),
            least,
            debt: Bytes::ZERO,
            shed: Bytes::ZERO,
            short: most < seen.ended.growth,
        }
    }

    /// Growth that the policy allows, of what the collector's rule wants.
    fn within_sizing(&mut self, seen: &Seen, capacity: Bytes) -> Bytes {
        self.sizing.bounded(capacity.max(Bytes(1)));
        self.sizing.ended(&seen.ended);
        let room = self.sizing.size() - seen.ended.live;
        seen.ended.growth.min(room)
    }
}

fn least(resident: Bytes) -> Bytes {
    (resident / LEAST_PART).max(LEAST)
}

#[cfg(test)]
mod tests;
