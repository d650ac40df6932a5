//! What collecting costs a program, as measured: the part of its time that goes into pauses, at the
//! room for garbage that it has.
//!
//! With twice the room it collects half as often, so time per allocated byte times the room stays
//! about the same, whatever the collector does in detail. That product is what the broker's
//! square-root rule needs. For collections of the whole heap it is live bytes over collection
//! speed; so it is told as a speed.

use super::Seen;

/// What was measured is forgotten as the program allocates, not as time passes: a program that
/// hardly works tells little that is new, and by chance. So many times the room for garbage.
const MEMORY: f64 = 16.0;
/// So many times the room have to be allocated before a measurement is worth telling.
const ENOUGH: f64 = 2.0;
/// A larger heap is worth the collection that makes it if it saves as much in so many seconds:
/// longer, limits seldom stay.
const HORIZON: f64 = 20.0;
/// Time in pauses is not measured finer, seconds: no collector costs nothing.
const FINEST: f64 = 1e-4;

/// Sums, with what is older counting less.
#[derive(Debug, Default)]
pub(super) struct Cost {
    last: Option<Last>,
    /// Bytes that were allocated.
    allocated: f64,
    /// Seconds in pauses for it.
    paused: f64,
    /// Rooms for garbage, bytes, each times the bytes that were allocated with it.
    rooms: f64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    asked_ns: u64,
    collection_ns: u64,
}

impl Cost {
    /// So many bytes were allocated since this was said last, with `live` bytes that live.
    pub(super) fn allocated(&mut self, bytes: f64, live: u64, seen: &Seen) {
        let now = Last {
            asked_ns: seen.asked_ns,
            collection_ns: seen.heap.collection_ns(),
        };
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let paused = now.collection_ns.saturating_sub(last.collection_ns);
        // What was asked for is not the program's own rhythm.
        let own = paused.saturating_sub(now.asked_ns.saturating_sub(last.asked_ns));
        let room = seen.heap.committed().saturating_sub(live).max(1) as f64;
        let kept = 1.0 / (1.0 + bytes / (MEMORY * room));
        self.allocated = self.allocated * kept + bytes;
        self.paused = self.paused * kept + own as f64 / 1e9;
        self.rooms = self.rooms * kept + room * bytes;
    }

    /// Seconds in pauses for each byte that is allocated, times the room in bytes; `None` until it
    /// was measured.
    fn product(&self) -> Option<f64> {
        let room = self.rooms / self.allocated.max(1.0);
        let known = room > 0.0 && self.allocated > ENOUGH * room;
        known.then(|| self.paused.max(FINEST) / self.allocated * room)
    }

    /// Nanoseconds in pauses that a room that is `more` bytes larger than `room` saves in
    /// [`HORIZON`], at `rate` bytes a second; `None` until that is known.
    pub(super) fn saved_ns(&self, rate: f64, room: u64, more: u64) -> Option<f64> {
        let (now, then) = (room.max(1) as f64, room.saturating_add(more).max(1) as f64);
        Some(self.product()? * rate * (1.0 / now - 1.0 / then) * HORIZON * 1e9)
    }

    /// Bytes per second that a collection would process if each was of the whole heap; `None` until
    /// it was measured.
    pub(super) fn speed(&self, live: u64) -> Option<f64> {
        self.product().map(|product| live as f64 / product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::snapshot::{Generation, Work};

    const MIB: u64 = 1 << 20;

    /// Runs for ten seconds at this room, with collections of `pause_ms` each time that half of it
    /// was filled.
    fn measured(room: u64, pause_ms: u64, asked: bool) -> f64 {
        let mut cost = Cost::default();
        let mut seen = Seen::default();
        seen.heap.old = Generation {
            capacity: 100 * MIB + room,
            ..Generation::default()
        };
        for _ in 0..100 {
            seen.now_ns += 100_000_000;
            let Work {
                invocations,
                time_ns,
            } = &mut seen.heap.work[0];
            *invocations += 1;
            *time_ns += pause_ms * 1_000_000;
            if asked {
                seen.asked_ns += pause_ms * 1_000_000;
            }
            cost.allocated((room / 2) as f64, 100 * MIB, &seen);
        }
        cost.speed(100 * MIB).expect("was measured")
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
    fn what_was_asked_for_does_not_count() {
        assert!(measured(50 * MIB, 50, true) > 10.0 * measured(50 * MIB, 50, false));
    }
}
