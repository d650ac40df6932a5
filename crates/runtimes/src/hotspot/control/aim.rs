//! The size that free ratios should make, and the one that they can.

use super::Seen;
use super::watch::Watch;
use crate::hotspot::levers::{Levers, SizedBy};

/// What the size should be, and what the ratios can make it: a whole percentage, so that sizes come in steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub(super) size: u64,
    pub(super) reachable: u64,
    pub(super) percent: u64,
    /// The next size above it is so far away.
    pub(super) step: u64,
    /// Which part of a size is resident, at the most 1.
    pub(super) resident: f64,
    /// What lives asks for more than there is room for.
    pub(super) least: bool,
}

impl Aim {
    /// For a resident heap of `room` bytes with `live` bytes in it, where a collection finds
    /// `basis` bytes in use. `fills`: garbage fills the old generation, so that both are resident
    /// as they are committed.
    pub(super) fn of(
        room: u64,
        (live, basis): (u64, u64),
        fills: bool,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Aim {
        let live = live.max(1);
        let least = least(live, levers);
        // The ratios are applied to `basis`; the lever's size is what they make over `part`.
        let (basis, wanted, max, part, resident) = match levers.sized_by {
            SizedBy::OldRatios { new_ratio } => {
                let max = seen.heap.young.max.max(1);
                let (young, resident) = match fills {
                    true => (room / new_ratio.saturating_add(1), 1.0),
                    false => young_for(room, live, seen, watch),
                };
                let old = young.min(max).saturating_mul(new_ratio);
                (
                    live,
                    old,
                    max.saturating_mul(new_ratio),
                    new_ratio,
                    resident,
                )
            }
            SizedBy::OldOnly => {
                let size = room.saturating_sub(seen.heap.young.capacity);
                (live, size, u64::MAX, 1, 1.0)
            }
            _ => {
                let max = seen.heap.old.max.max(1);
                (basis, room.min(max), max, 1, 1.0)
            }
        };
        let (wanted, floored) = (wanted.max(least.min(max)), wanted < least);
        let (percent, reachable, next) = choose(basis, wanted, max);
        Aim {
            size: wanted / part,
            reachable: reachable / part,
            percent,
            step: next.saturating_sub(reachable) / part,
            resident,
            least: floored,
        }
    }

    /// The size that its ratio would make if so many bytes were in use.
    pub(super) fn at(&self, used: u64) -> u64 {
        (used as f64 * 100.0 / (100 - self.percent.min(99)) as f64) as u64
    }

    /// Bytes that the size in reach leaves unused.
    pub(super) fn unused(&self) -> u64 {
        (self.size.saturating_sub(self.reachable) as f64 * self.resident) as u64
    }
}

/// The least that the ratios can make of the heap, or of the old generation where they are about that, bytes.
fn least(live: u64, levers: &Levers) -> u64 {
    let set = match levers.sized_by {
        SizedBy::OldRatios { new_ratio } => {
            let parts = new_ratio.saturating_add(1);
            levers.least_size / parts * new_ratio
        }
        _ => levers.least_size,
    };
    set.max(live.saturating_mul(levers.least_percent) / 100)
}

/// The young generation that fills what the old one leaves of the room, and which part of it is resident.
fn young_for(room: u64, live: u64, seen: &Seen, watch: &Watch) -> (u64, f64) {
    let young = &seen.heap.young;
    let resident = live.max(watch.old_peak.min(seen.heap.old.capacity));
    let rest = room.saturating_sub(resident);
    // Survivor spaces are mostly untouched, but where eden was before they hold its pages.
    if rest < watch.young_touched {
        return (rest, 1.0);
    }
    let part = young.first_max.max(1) as f64 / young.max.max(1) as f64 + 0.03;
    let part = part.clamp(0.3, 1.0);
    ((rest as f64 / part) as u64, part)
}

/// What the lever sets, as it is now.
pub(super) fn size(seen: &Seen, levers: &Levers) -> u64 {
    match levers.sized_by {
        SizedBy::OldRatios { .. } => seen.heap.young.capacity,
        SizedBy::OldOnly => seen.heap.old.capacity,
        _ => seen.heap.committed(),
    }
}

/// The free ratio that makes `basis` used bytes the heap of this size, the size that it makes and
/// the one above. Takes the step below, unless the one above is nearer and no further above than
/// what is wanted is below the limit. The heap never becomes larger than `max`.
fn choose(basis: u64, wanted: u64, max: u64) -> (u64, u64, u64) {
    let wanted = wanted.max(basis).max(1);
    let below = 100_u64
        .saturating_sub((basis as f64 * 100.0 / wanted as f64).ceil() as u64)
        .min(98);
    let made =
        |percent: u64| ((basis as f64 * 100.0 / (100 - percent.min(99)) as f64) as u64).min(max);
    let (low, high) = (made(below), made(below + 1));
    let near = high.saturating_sub(wanted);
    if near < wanted.saturating_sub(low) && near <= wanted / 40 {
        (below + 1, high, made(below + 2))
    } else {
        (below, low, high)
    }
}
