//! The limit of a machine: the smaller of the broker's and of what its stalls say.

use super::super::isla_vista::{Moment, Turn};
use super::super::snapshot::Snapshot;
use super::{Control, HotSpotLever, SizedBy};
use crate::lever::Goal;
use plimsoll_kernel::stalls::Stalled;
use tracing::{debug, info};

impl HotSpotLever<'_> {
    /// The smaller of the broker's limit and that of the feedback, bytes; 0 if there is neither. The
    /// feedback takes the native part as it was measured: memory that a smaller heap has not returned
    /// yet must not count as native, or the limit would rise by it.
    pub(super) fn limit(&mut self, goal: &Goal, uses: u64, heap: &Snapshot) -> u64 {
        let granted = goal.limit;
        let native = self.footprint.native;
        let (live, close) = (self.control.live(), self.control.is_close());
        let Some((feedback, signal)) = &mut self.feedback else {
            return granted;
        };
        let page = self.agent.as_ref().and_then(|page| page.view().ok());
        let span = signal.read(page, heap.collections());
        let stalled = span.stalled;
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let own = feedback.size().map(|size| size.saturating_add(native));
        let holds = granted == 0 || own.is_some_and(|own| own <= granted);
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
            span,
            few: signal.few(),
            keeps: granted > 0 && goal.owed == 0 && uses <= granted,
            close: close && holds,
        });
        let size = feedback.size();
        self.tell(stalled, size, uses.saturating_sub(native), heap);
        self.turned(turn, granted);
        match (size.map(|size| size.saturating_add(native).max(1)), granted) {
            (None, granted) => granted,
            (Some(felt), 0) => felt,
            (Some(felt), granted) => felt.min(granted),
        }
    }

    /// One line for each look at a machine that stalls or is under the policy. Bytes.
    fn tell(&self, stalled: Stalled, size: Option<u64>, takes: u64, heap: &Snapshot) {
        if !stalled.any() && size.is_none() {
            return;
        }
        debug!(
            "process {} at {:.1} s: stalled {} times, {} ms; {} collections, {} ms in pauses; \
             heap {} MiB ({} committed, {} old), may be {:?} MiB",
            self.target.process.pid,
            self.started.elapsed().as_secs_f64(),
            stalled.count,
            stalled.ns / 1_000_000,
            heap.collections(),
            heap.collection_ns() / 1_000_000,
            takes >> 20,
            heap.committed() >> 20,
            heap.old.used >> 20,
            size.map(|size| size >> 20),
        );
    }

    /// Tells that the policy took the heap over or left it. A machine that nobody limits any more
    /// gets its flags back.
    fn turned(&mut self, turn: Option<Turn>, granted: u64) {
        let pid = self.target.process.pid;
        match turn {
            Some(Turn::Begun) => {
                info!("process {pid}: a collection stalled; its heap follows Isla Vista");
            }
            Some(Turn::Over) => {
                info!("process {pid}: no stalls up to the maximum heap; it is left its own rule");
                if granted == 0 {
                    self.let_go();
                    let share = self.target.options.collection_share;
                    self.control = Control::new(self.levers.clone(), share);
                }
            }
            None => {}
        }
    }
}
