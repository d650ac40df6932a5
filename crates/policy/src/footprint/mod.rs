//! How much memory a collected heap may take: from one collection to the next, under the tightest
//! of what a broker grants, what the machine or a group still has, and what the kernel had to take
//! away by itself.

mod bound;

pub use bound::{Beside, Bound, is_cliff, reserve};

use crate::sizing::{DropIn, Ended, Sizing};

/// What stays unused below a broker's limit, at the most: what a process holds besides its heap
/// moves by so much, however large the heap is.
const MOST_UNUSED: u64 = 24 << 20;

/// How far a release goes below the threshold, at the most: what lies deeper is filled again at once.
const MOST_RELEASED: u64 = 32 << 20;

/// A heap may always allocate this between two collections, or a part of what it has in memory.
const LEAST: u64 = 1 << 20;
const LEAST_PART: u64 = 16;

/// For its own growth a heap pages out no more than this part of itself at a time.
const SHED_PART: u64 = 4;

/// The heap may grow until the process uses this much: 15/16 of the limit (Walfield, section 5.1),
/// nearer to a large one.
pub fn threshold(limit: u64) -> u64 {
    limit - (limit / 16).min(MOST_UNUSED)
}

/// A release goes down to this use: 7/8 of the threshold (Walfield, section 5.1), nearer to a large one.
pub fn low_water(limit: u64) -> u64 {
    let threshold = threshold(limit);
    threshold - (threshold / 8).min(MOST_RELEASED)
}

/// How much the native memory of a program may grow by before collections can give way: direct
/// buffers that are filled at once, say. Of little memory it is a quarter. Bytes.
pub fn surprise(capacity: u64) -> u64 {
    (capacity / 4).min(160 << 20)
}

/// What a collection left. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The collection. What lives is what of the heap is in use and in memory.
    pub ended: Ended,
    /// Holes in what is in use, which are filled before it grows.
    pub holes: u64,
    /// What bounds it.
    pub bound: Bound,
}

/// What to do until the next collection. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What there is room for, of what it would grow by.
    room: u64,
    /// What there is too much already.
    debt: u64,
    /// What may be allocated whether there is room or not.
    least: u64,
    /// What there is room for, if it were to grow by more.
    pub most: u64,
    /// So much is to be paged out, cold first: what there is no room for.
    pub shed: u64,
    /// Memory is short: what is free is to be given back, and the limit to be kept.
    pub short: bool,
}

impl Decision {
    /// By how much the heap may grow, where so much was paged out.
    pub fn growth(&self, shed: u64) -> u64 {
        let shed = shed.saturating_sub(self.debt);
        self.room.saturating_add(shed).max(self.least)
    }
}

/// The sizing of one heap: a policy, and what bounds the heap.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// What it learned holds as long as the kernel is what bounds the heap.
    sizing: DropIn,
}

impl Footprint {
    /// A collection ended.
    pub fn after(&mut self, seen: &Seen) -> Decision {
        let most = seen.bound.room(seen.ended.live);
        let least = least(seen.ended.live);
        let (room, wanted, debt) = match seen.bound {
            // What the broker grants is the heap's, whatever the kernel does meanwhile.
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
            // Holes are progress, too, but where memory is short some are in swap.
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

    /// Where nothing can be paged out: holes are progress, too, and for the rest a heap takes a part of
    /// what is left, again and again.
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

    /// What the policy leaves of what it would grow by.
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
