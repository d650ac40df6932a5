//! The limit of a machine: the smaller of the broker's and of what its stalls say, or what is free.

use super::super::isla_vista::{Moment, Turn};
use super::super::snapshot::Snapshot;
use super::by_stalls::ByStalls;
use super::{HotSpotLever, SizedBy};
use crate::lever::Goal;
use plimsoll_kernel::stalls::Stalled;
use tracing::{debug, info};

impl HotSpotLever<'_> {
    /// The smaller of the broker's limit and that of the feedback, bytes; 0 if there is neither. `uses`: of
    /// the process, with its heap in swap; `swapped`: all of it in swap. The feedback takes the native part
    /// as it was measured: memory that a smaller heap has not returned yet must not count as native, or the
    /// limit would rise by it.
    pub(super) fn limit(
        &mut self,
        goal: &Goal,
        (uses, swapped): (u64, u64),
        heap: &Snapshot,
    ) -> u64 {
        let granted = goal.limit;
        let native = self.footprint.native;
        let (live, close) = (self.control.live(), self.control.is_close());
        let Some(by_stalls) = &mut self.by_stalls else {
            return granted;
        };
        // A broker grants what is free, and knows what others are about to give back.
        let heap_swapped = swapped.saturating_sub(self.footprint.native_swapped);
        let reach = match granted {
            0 => by_stalls.reach(uses.saturating_sub(heap_swapped)),
            _ => u64::MAX,
        };
        let ByStalls {
            feedback, signal, ..
        } = by_stalls;
        let page = self.agent.as_ref().and_then(|page| page.view().ok());
        let span = signal.read(page, heap.collections());
        let stalled = span.stalled;
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let holds = granted == 0 || feedback.size().saturating_add(native) <= granted;
        let maximum = self.machine.flags.number("MaxHeapSize");
        let turn = feedback.look(&Moment {
            now_ns,
            collections: heap.collections(),
            whole: heap.work[1].invocations,
            heap: uses.saturating_sub(native),
            used: match self.levers.sized_by {
                // Between two cycles a heap without generations is full of garbage.
                SizedBy::SoftMax => live,
                _ => heap.old.used,
            },
            most: maximum.unwrap_or(u64::MAX),
            reach: reach.saturating_sub(native),
            span,
            few: signal.few(),
            keeps: granted > 0 && goal.owed == 0 && uses <= granted,
            close: close && holds,
        });
        let (size, stalls) = (feedback.size(), feedback.is_stalled());
        if stalls || stalled.any() {
            self.tell(stalled, size, uses.saturating_sub(native), heap);
        }
        self.turned(turn);
        let felt = size.saturating_add(native).max(1);
        match granted {
            0 => felt,
            granted if stalls => felt.min(granted),
            granted => granted,
        }
    }

    /// One line for each look at a machine that stalls or is under the policy. Bytes.
    fn tell(&self, stalled: Stalled, size: u64, takes: u64, heap: &Snapshot) {
        debug!(
            "process {} at {:.1} s: stalled {} times, {} ms; {} collections, {} ms in pauses; \
             heap {} MiB ({} committed, {} old), may be {} MiB",
            self.target.process.pid,
            self.started.elapsed().as_secs_f64(),
            stalled.count,
            stalled.time.0 / 1_000_000,
            heap.collections(),
            heap.collection_ns() / 1_000_000,
            takes >> 20,
            heap.committed() >> 20,
            heap.old.used >> 20,
            size >> 20,
        );
    }

    /// Tells that the policy took the heap over or left it.
    fn turned(&self, turn: Option<Turn>) {
        let pid = self.target.process.pid;
        match turn {
            Some(Turn::Begun) => {
                info!("process {pid}: a collection stalled; its heap follows Isla Vista");
            }
            Some(Turn::Over) => {
                info!("process {pid}: no stalls up to the maximum heap; it may take what is free");
            }
            None => {}
        }
    }
}
