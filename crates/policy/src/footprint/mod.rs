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

/// Bytes that a heap may always allocate between two collections; for a larger heap, this part of
/// its resident memory (one in `LEAST_PART`).
const LEAST: u64 = 1 << 20;
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

/// State after a collection. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The collection. Its `live` counts the part of the heap that is in use and resident.
    pub ended: Ended,
    /// Holes in the used part of the heap. They are filled before the heap grows.
    pub holes: u64,
    /// The bound of the heap.
    pub bound: Bound,
}

/// Orders until the next collection. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Room for the growth that the collector's rule wants.
    room: u64,
    /// Bytes by which the heap exceeds its bound already.
    debt: u64,
    /// Bytes that may be allocated even without room.
    least: u64,
    /// Room for a heap that would grow by more than the collector's rule wants.
    pub most: u64,
    /// Bytes to page out, cold pages first, because there is no room for them.
    pub shed: u64,
    /// Memory is short: free memory must be given back and the limit kept.
    pub short: bool,
}

impl Decision {
    /// Bytes by which the heap may grow after `shed` bytes were paged out.
    pub fn growth(&self, shed: u64) -> u64 {
        let shed = shed.saturating_sub(self.debt);
        self.room.saturating_add(shed).max(self.least)
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
                (most, wanted, seen.ended.live.saturating_sub(heap))
            }
            Bound::None => (self.within_sizing(seen, u64::MAX), seen.ended.growth, 0),
            Bound::Cliff { .. } => return self.before_a_cliff(seen, most),
            Bound::Domain { capacity, .. } => {
                let room = self.within_sizing(seen, capacity).min(most);
                (room, seen.ended.growth, 0)
            }
        };
        let missing = wanted.saturating_sub(room).min(seen.ended.live / SHED_PART);
        let short = room < seen.ended.growth;
        Decision {
            room,
            most: most.max(least),
            // Holes allow progress as well, but where memory is short some of them are in swap.
            least: if short {
                least
            } else {
                least.saturating_sub(seen.holes)
            },
            debt,
            shed: missing.saturating_add(debt),
            short,
        }
    }

    /// Decides where nothing can be paged out. Holes allow progress; for the rest a heap takes a
    /// part of what is left, repeatedly.
    fn before_a_cliff(&mut self, seen: &Seen, most: u64) -> Decision {
        self.sizing = DropIn::default();
        let progress = least(seen.ended.live).min(seen.bound.last().unwrap_or(0));
        let least = progress.saturating_sub(seen.holes).min(seen.ended.growth);
        Decision {
            room: most.min(seen.ended.growth),
            most: most.max(least),
            least,
            debt: 0,
            shed: 0,
            short: most < seen.ended.growth,
        }
    }

    /// Growth that the policy allows, of what the collector's rule wants.
    fn within_sizing(&mut self, seen: &Seen, capacity: u64) -> u64 {
        self.sizing.bounded(capacity.max(1));
        self.sizing.ended(&seen.ended);
        let room = self.sizing.size().saturating_sub(seen.ended.live);
        seen.ended.growth.min(room)
    }
}

fn least(resident: u64) -> u64 {
    (resident / LEAST_PART).max(LEAST)
}

#[cfg(test)]
mod tests;
