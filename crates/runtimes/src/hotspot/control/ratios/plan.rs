//! Chooses the size to aim at, and the kind of collection that produces it.

use super::Ratios;
use crate::hotspot::control::aim::Aim;
use crate::hotspot::control::observation::{SMALL, Seen};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::Bytes;

impl Ratios {
    /// The aim for a limit, and whether to reach it by a collection that stops the program. `(urgent,
    /// in_vain)`: whether the program is over its limit, and was left so by the last concurrent collection.
    pub(super) fn plan(
        &self,
        pressed: (bool, bool),
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> (bool, Aim) {
        let beside = self.aim(false, seen, levers, watch);
        let whole = self.concurrent && self.must_stop(&beside, pressed, seen, watch);
        if whole {
            (true, self.aim(true, seen, levers, watch))
        } else {
            (false, beside)
        }
    }

    fn aim(&self, whole: bool, seen: &Seen, levers: &Levers, watch: &Watch) -> Aim {
        let cliff = seen.spare > Bytes::ZERO && levers.sized_by == SizedBy::HeapRatios;
        let room = self.learned.room(watch.heap_size.at(seen), cliff);
        let room = room - left_to_creep(seen, levers);
        let found = match (self.concurrent, whole) {
            (true, false) => (watch.live.estimate(seen), self.learned.basis(seen)),
            _ => [watch.live.compact_estimate(seen).max(Bytes(1)); 2].into(),
        };
        Aim::of(room, found, self.old.fills(seen), seen, levers, watch)
    }

    /// The most that the program could use out of `seen.available`, bytes, if the steps of the
    /// ratios would leave much of that unused; others can have the rest. With few live bytes the
    /// steps are large (with 10 MiB: from 500 MiB to 1000 MiB).
    pub(in super::super) fn attainable(
        &self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Option<Bytes> {
        let could = Seen {
            limit: seen.available,
            ..*seen
        };
        let (_, aim) = self.plan((false, false), &could, levers, watch);
        let unused = aim.unused();
        if seen.available == Bytes::ZERO || !watch.live.whole_seen || unused <= seen.available / 8 {
            return None;
        }
        // Never less than the program holds. A little more, so that a slightly smaller basis does
        // not lose the step.
        let used = (seen.available - unused).max(seen.uses);
        Some((used + used / 16).min(seen.available))
    }

    /// Whether to use a collection that stops the program. The memory that a concurrent cycle finds
    /// in use is mostly garbage and new allocation, which cannot be predicted; a collection that
    /// stops the program finds the live bytes. With many live bytes such a pause is used only when
    /// urgent, and only after a concurrent cycle failed.
    fn must_stop(
        &self,
        beside: &Aim,
        (urgent, in_vain): (bool, bool),
        seen: &Seen,
        watch: &Watch,
    ) -> bool {
        let live = watch.live.estimate(seen);
        if live > SMALL {
            return urgent && in_vain;
        }
        let worst = beside.at(seen.heap.committed());
        let overshoots = worst > beside.size + beside.size / 8;
        urgent || overshoots || self.learned.drift > live / 2
    }
}

/// The bytes by which a heap of G1 with an agent is sized lower. It grows by single regions, up to the limit
/// and beyond; there the agent gives back the same regions at each collection, and the program touches them
/// again.
fn left_to_creep(seen: &Seen, levers: &Levers) -> Bytes {
    let creeps = levers.sized_by == SizedBy::HeapRatios && seen.frees_garbage();
    if creeps { seen.limit / 64 } else { Bytes::ZERO }
}
