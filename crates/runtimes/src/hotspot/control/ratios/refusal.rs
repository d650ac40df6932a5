//! A machine that does not become smaller. The generations of Serial never shrink below their first sizes,
//! which a machine that was started without our flags chose itself.

use super::state::{Held, Refusal, Resizing};
use crate::hotspot::control::aim::sized;
use crate::hotspot::control::observation::{Seen, slack};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};

impl Refusal {
    /// Judges a resizing, after its collection. The old generation of Parallel follows averages too, and
    /// may shrink at a later collection.
    pub(super) fn of(
        done: &Resizing,
        concurrent: bool,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Option<Refusal> {
        if concurrent || levers.sized_by == SizedBy::OldOnly || done.wanted >= done.size {
            return None;
        }
        // A young collection does not resize. It may come before the one that was asked for, or in its place.
        if seen.heap.work[1].invocations <= done.whole {
            return None;
        }
        let committed = seen.heap.committed();
        let same = committed.abs_diff(done.committed) <= done.committed / 100;
        // With more live bytes than expected the ratios ask for no less. A lower ratio may still help then.
        let old = &seen.heap.old;
        let asked = sized(old.used, done.percent);
        let refused = same && old.capacity > asked + slack(seen.limit);
        refused.then_some(Refusal {
            committed,
            live: watch.live.bytes,
        })
    }
}

impl Held {
    /// Whether the machine has shown that it does not become smaller. That holds until its heap has another
    /// size, or until a collection, ours or the program's own, leaves notably fewer live bytes.
    pub(super) fn refuses(&self, seen: &Seen, watch: &Watch) -> bool {
        self.refusal.is_some_and(|known| {
            let same = seen.heap.committed().abs_diff(known.committed) <= known.committed / 100;
            same && watch.live.bytes + known.live / 20 >= known.live
        })
    }
}
