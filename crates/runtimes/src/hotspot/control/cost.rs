//! What collecting costs a program, as measured: the part of its time that goes into pauses, at the room for garbage that it has.
//!
//! With twice the room it collects half as often, so time per allocated byte times the room stays about the same, whatever
//! the collector does in detail. That product is what the broker's square-root rule needs. For collections of the whole heap it is
//! live bytes over collection speed; so it is told as a speed.

use super::Seen;

/// A measurement takes so long at the least, nanoseconds.
const SPAN: u64 = 1_000_000_000;
/// And so many looks at which something was collected.
const LOOKS: u32 = 4;
/// Time in pauses is not measured finer, seconds: no collector costs nothing.
const FINEST: f64 = 1e-4;

#[derive(Debug, Default)]
pub(super) struct Cost {
    began: Option<Began>,
    /// Bytes that were allocated since, and the sum of the rooms for garbage that were seen, bytes.
    allocated: f64,
    rooms: f64,
    looks: u32,
    /// Seconds in pauses per allocated byte, times the room in bytes: smoothed. 0 until it was measured.
    product: f64,
}

#[derive(Clone, Copy, Debug)]
struct Began {
    now_ns: u64,
    asked_ns: u64,
    collection_ns: u64,
}

impl Cost {
    /// So many bytes were allocated since this was said last, with `live` bytes that live.
    pub(super) fn allocated(&mut self, bytes: f64, live: u64, seen: &Seen) {
        let now = Began {
            now_ns: seen.now_ns,
            asked_ns: seen.asked_ns,
            collection_ns: seen.heap.collection_ns(),
        };
        let Some(began) = self.began else {
            self.began = Some(now);
            return;
        };
        self.allocated += bytes;
        self.rooms += seen.heap.committed().saturating_sub(live) as f64;
        self.looks += 1;
        if now.now_ns.saturating_sub(began.now_ns) < SPAN || self.looks < LOOKS {
            return;
        }
        let paused = now.collection_ns.saturating_sub(began.collection_ns);
        // What was asked for is not the program's own rhythm.
        let own = paused.saturating_sub(now.asked_ns.saturating_sub(began.asked_ns));
        let seconds = (own as f64 / 1e9).max(FINEST);
        let product = seconds / self.allocated.max(1.0) * (self.rooms / f64::from(self.looks));
        self.product = match self.product {
            0.0 => product,
            known => known * 0.6 + product * 0.4,
        };
        (self.began, self.allocated, self.rooms, self.looks) = (Some(now), 0.0, 0.0, 0);
    }

    /// Bytes per second that a collection would process if each was of the whole heap; `None` until it was measured.
    pub(super) fn speed(&self, live: u64) -> Option<f64> {
        (self.product > 0.0).then(|| live as f64 / self.product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::snapshot::{Generation, Work};

    const MIB: u64 = 1 << 20;

    /// Runs for ten seconds at this room, with collections of `pause_ms` each time that half of it was filled.
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
