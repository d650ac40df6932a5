//! The size that the free ratios should produce, and the nearest one that they can.

use super::observation::Seen;
use super::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// The wanted size and the size that the ratios can produce. Ratios are whole percentages, so sizes
/// come in steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// The wanted size.
    pub(super) size: Bytes,
    /// The size that the ratios produce.
    pub(super) reachable: Bytes,
    /// The ratio for that, percent.
    pub(super) percent: u64,
    /// The distance from `reachable` to the next size above.
    pub(super) step: Bytes,
    /// The part of the size that is resident, at most 1.
    pub(super) resident: f64,
    /// The live bytes, or the least size, need more than the room.
    pub(super) least: bool,
}

impl Aim {
    /// Computes the aim for a resident heap of `room` bytes with `live` bytes in it, where a
    /// collection finds `basis` bytes in use. `fills`: garbage fills the old generation, so all
    /// that is committed of both generations is resident.
    pub(super) fn of(
        room: Bytes,
        (live, basis): (Bytes, Bytes),
        fills: bool,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Aim {
        let live = live.max(Bytes(1));
        let least = least(live, levers);
        // The ratios apply to `basis` and produce a size; the lever's size is that divided by
        // `part`.
        let (basis, wanted, max, part, resident) = match levers.sized_by {
            SizedBy::OldRatios { new_ratio } => {
                let max = seen.heap.young.max.max(Bytes(1));
                let (young, resident) = if fills {
                    (room / new_ratio.saturating_add(1), 1.0)
                } else {
                    young_for(room, live, seen, watch)
                };
                let old = young.min(max) * new_ratio;
                (live, old, max * new_ratio, new_ratio, resident)
            }
            SizedBy::OldOnly => {
                let size = room - seen.heap.young.capacity;
                (live, size, Bytes::MAX, 1, 1.0)
            }
            _ => {
                let max = seen.heap.old.max.max(Bytes(1));
                (basis, room.min(max), max, 1, 1.0)
            }
        };
        let (wanted, floored) = (wanted.max(least.min(max)), wanted < least);
        let (percent, reachable, next) = choose(basis, wanted, max);
        Aim {
            size: wanted / part,
            reachable: reachable / part,
            percent,
            step: (next - reachable) / part,
            resident,
            least: floored,
        }
    }

    /// The size that the chosen ratio would produce if `used` bytes were in use.
    pub(super) fn at(&self, used: Bytes) -> Bytes {
        sized(used, self.percent)
    }

    /// The resident bytes by which the reachable size falls short of the wanted one.
    pub(super) fn unused(&self) -> Bytes {
        Bytes(((self.size - self.reachable).0 as f64 * self.resident) as u64)
    }
}

/// The least size that the ratios can produce, bytes: of the old generation if they apply to it,
/// else of the heap.
fn least(live: Bytes, levers: &Levers) -> Bytes {
    let set = match levers.sized_by {
        SizedBy::OldRatios { new_ratio } => {
            let parts = new_ratio.saturating_add(1);
            levers.least_size / parts * new_ratio
        }
        _ => levers.least_size,
    };
    set.max(live * levers.least_percent / 100)
}

/// With an agent, room is left for so much garbage in the old generation as arrives in this time. Then a
/// collection of the whole heap is due, which is asked for.
const ARRIVES: Nanos = Nanos::seconds(10);

/// The garbage that arrives in that time, or half of the room if that is less.
fn arriving(room: Bytes, live: Bytes, watch: &Watch) -> Bytes {
    watch.promotion.within(ARRIVES).min((room - live) / 2)
}

/// The part of the room that an old generation with an agent leaves free for garbage that has not arrived
/// yet.
pub(super) fn awaited(room: Bytes, seen: &Seen, levers: &Levers, watch: &Watch) -> Bytes {
    let live = watch.live.bytes;
    match levers.sized_by {
        SizedBy::OldRatios { .. } if seen.frees_garbage() => {
            arriving(room, live, watch) - (seen.heap.old.used - live)
        }
        _ => Bytes::ZERO,
    }
}

/// The size of the young generation that fills the room left by the old one, and the part of it
/// that is resident.
fn young_for(room: Bytes, live: Bytes, seen: &Seen, watch: &Watch) -> (Bytes, f64) {
    let young = &seen.heap.young;
    let rest = if seen.frees_garbage() {
        room - live - arriving(room, live, watch)
    } else {
        room - live.max(watch.touched.old_resident(seen))
    };
    // Survivor spaces are mostly untouched, unless they lie where eden was and hold its pages.
    if seen.frees_garbage() || rest < watch.touched.young {
        return (rest, 1.0);
    }
    let part = young.first_max.0.max(1) as f64 / young.max.0.max(1) as f64 + 0.03;
    let part = part.clamp(0.3, 1.0);
    (Bytes((rest.0 as f64 / part) as u64), part)
}

/// The present value of the size that the lever sets, bytes.
pub(super) fn size(seen: &Seen, levers: &Levers) -> Bytes {
    match levers.sized_by {
        SizedBy::OldRatios { .. } => seen.heap.young.capacity,
        SizedBy::OldOnly => seen.heap.old.capacity,
        _ => seen.heap.committed(),
    }
}

/// The size that has this many percent free when `used` is in use.
pub(super) fn sized(used: Bytes, percent: u64) -> Bytes {
    Bytes((used.0 as f64 * 100.0 / (100 - percent.min(99)) as f64) as u64)
}

/// Chooses the free ratio for the size `wanted` when `basis` bytes are used. Returns the ratio in
/// percent, the size that it produces, and the next size above. Takes the step below `wanted`,
/// unless the step above is nearer and at most 1/40 too large: the aim stays further below the
/// limit than that. No size exceeds `max`.
fn choose(basis: Bytes, wanted: Bytes, max: Bytes) -> (u64, Bytes, Bytes) {
    let wanted = wanted.max(basis).max(Bytes(1));
    let below = 100_u64
        .saturating_sub((basis.0 as f64 * 100.0 / wanted.0 as f64).ceil() as u64)
        .min(98);
    let made = |percent: u64| sized(basis, percent).min(max);
    let (low, high) = (made(below), made(below + 1));
    let near = high - wanted;
    if near < wanted - low && near <= wanted / 40 {
        (below + 1, high, made(below + 2))
    } else {
        (below, low, high)
    }
}
