//! The measured cost of collecting: the part of a program's time that goes into collections, given its
//! room for garbage.
//!
//! With twice the room a program collects half as often, so collection time per allocated byte times
//! the room stays about the same for every collector. The broker's square-root rule needs this product.
//! For collections of the whole heap it equals live bytes over collection speed, so it is reported
//! as a speed.

use super::observation::Seen;
use plimsoll_unit::{Bytes, Nanos};

/// How much allocation it takes to forget old measurements, as a multiple of the room for garbage.
/// Allocation counts, not time, because a program that hardly works gives few and random
/// measurements.
const MEMORY: f64 = 16.0;
/// How much has to be allocated before a measurement is reported, as a multiple of the room.
const ENOUGH: f64 = 2.0;
/// A larger heap is worth the collection that makes it if it saves as much within this many
/// seconds. Limits seldom stay longer.
const HORIZON: f64 = 20.0;
/// The resolution of measured collection time, seconds. Used as a minimum because no collector is free.
const FINEST: f64 = 1e-4;

/// Sums in which older measurements count less.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// The counters at the last measurement; `None` before the first.
    last: Option<Last>,
    /// Bytes allocated.
    allocated: f64,
    /// Seconds of collections for them.
    collected: f64,
    /// The sum of each room for garbage (bytes) times the bytes allocated with it.
    rooms: f64,
    /// Live bytes per second of requested collections, smoothed; 0 before the first.
    requested: f64,
}

/// Counters at one time.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Time of requested commands so far.
    asked: Nanos,
    /// Time of collections so far.
    collecting: Nanos,
}

impl Last {
    fn of(seen: &Seen) -> Last {
        Last {
            // The time of work beside the program does not contain requested collections.
            asked: seen.beside.map_or(seen.asked, |_| Nanos::ZERO),
            collecting: seen.collecting(),
        }
    }
}

impl Cost {
    /// Notes that `bytes` were allocated since the last call, with `live` bytes alive.
    pub(super) fn allocated(&mut self, bytes: f64, live: Bytes, seen: &Seen) {
        let now = Last::of(seen);
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let took = now.collecting - last.collecting;
        // Requested collections do not belong to the program's own rhythm.
        let own = took - (now.asked - last.asked);
        let room = (seen.heap.committed() - live).0.max(1) as f64;
        let kept = 1.0 / (1.0 + bytes / (MEMORY * room));
        self.allocated = self.allocated * kept + bytes;
        self.collected = self.collected * kept + own.duration().as_secs_f64();
        self.rooms = self.rooms * kept + room * bytes;
    }

    /// Leaves out the collections since the last call: we asked for one of them.
    pub(super) fn skip(&mut self, seen: &Seen) {
        self.last = Some(Last::of(seen));
    }

    /// Notes a requested collection: how long it took, and the `live` bytes after it.
    pub(super) fn requested(&mut self, took: Nanos, live: Bytes) {
        if took > Nanos::ZERO && live > Bytes::ZERO {
            let speed = live.0 as f64 / took.duration().as_secs_f64();
            self.requested = if self.requested == 0.0 {
                speed
            } else {
                self.requested * 0.7 + speed * 0.3
            };
        }
    }

    /// Seconds of collections per allocated byte, times the room in bytes; `None` until measured.
    fn product(&self) -> Option<f64> {
        let room = self.rooms / self.allocated.max(1.0);
        let known = room > 0.0 && self.allocated > ENOUGH * room;
        known.then(|| self.collected.max(FINEST) / self.allocated * room)
    }

    /// The collection time in nanoseconds that is saved within [`HORIZON`] if `room` grows by `more`
    /// bytes, at an allocation `rate` in bytes per second; `None` until known.
    pub(super) fn saved_ns(&self, rate: f64, room: Bytes, more: Bytes) -> Option<f64> {
        let (now, then) = (room.0.max(1) as f64, (room + more).0.max(1) as f64);
        Some(self.product()? * rate * (1.0 / now - 1.0 / then) * HORIZON * 1e9)
    }

    /// The collection speed in bytes per second, as if each collection was of the whole heap. Until the
    /// program's own collections are measured, it is that of requested ones; 0 before these.
    pub(super) fn speed(&self, live: Bytes) -> f64 {
        self.product()
            .map_or(self.requested, |product| live.0 as f64 / product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::snapshot::Generation;

    use plimsoll_unit::MIB;

    /// Runs for ten seconds with this room, and a collection each time that half of it is filled. `costs`
    /// puts what each costs into the moment after it.
    fn speed(room: u64, costs: impl Fn(&mut Seen)) -> f64 {
        let mut cost = Cost::default();
        let mut seen = Seen::default();
        seen.heap.old = Generation {
            capacity: Bytes(100 * MIB + room),
            ..Generation::default()
        };
        for _ in 0..100 {
            seen.now += Nanos::millis(100);
            seen.heap.work[0].invocations += 1;
            costs(&mut seen);
            cost.allocated((room / 2) as f64, Bytes::mib(100), &seen);
        }
        cost.speed(Bytes::mib(100))
    }

    /// With a collection in a pause of `pause_ms`.
    fn measured(room: u64, pause_ms: u64, asked: bool) -> f64 {
        speed(room, |seen| {
            seen.heap.work[0].time += Nanos::millis(pause_ms);
            if asked {
                seen.asked += Nanos::millis(pause_ms);
            }
        })
    }

    #[test]
    fn it_does_not_depend_on_the_room() {
        let (small, large) = (measured(50 * MIB, 5, false), measured(400 * MIB, 5, false));
        assert!((small / large - 1.0).abs() < 0.01, "{small} {large}");
        assert!(
            (small / (100.0 * MIB as f64 / 0.01) - 1.0).abs() < 0.01,
            "{small}"
        );
    }

    #[test]
    fn work_beside_the_program_counts_like_pauses() {
        let beside = speed(50 * MIB, |seen| {
            *seen.beside.get_or_insert(Nanos::ZERO) += Nanos::millis(5);
            // The counters of Shenandoah count whole cycles. Requested ones are counted by neither.
            seen.heap.work[0].time += Nanos::millis(30);
            seen.asked += Nanos::millis(40);
        });
        assert!((beside / measured(50 * MIB, 5, false) - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_was_asked_for_does_not_count() {
        assert!(measured(50 * MIB, 50, true) > 10.0 * measured(50 * MIB, 50, false));
    }
}
