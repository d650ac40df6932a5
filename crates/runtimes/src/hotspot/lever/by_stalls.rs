//! The limit of a machine without a broker, or below a broker's: by the stalls of its process, and by the
//! memory that is free.

use super::memory::Use;
use crate::hotspot::isla_vista::{Feedback, Moment, Turn};
use crate::hotspot::options::Policy;
use crate::hotspot::snapshot::Snapshot;
use crate::hotspot::stalls::Signal;
use crate::lever::Goal;
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::stalls::Stalled;
use plimsoll_unit::{Bytes, MIB, MILLISECOND, Nanos};
use plimsoll_wire::collections::View;
use tracing::{debug, info, warn};

/// One part in this many of the memory stays free until the first stall: for files that the program reads
/// again and again, and for what is taken between two looks.
const FREE_PART: u64 = 16;
/// The most that stays free.
const FREE_MOST: Bytes = Bytes::mib(1024);

/// Sizes the heap of one process. Used by the steering loop's thread alone.
#[derive(Debug)]
pub(super) struct ByStalls {
    /// The process.
    pid: u32,
    /// The decisions.
    feedback: Feedback,
    /// The stalls.
    signal: Signal,
    /// The memory that bounds the process; `None` if that cannot be read.
    domain: Option<Domain>,
}

/// One look at a machine.
pub(super) struct Look<'a> {
    /// Time since the steering began.
    pub(super) now: Nanos,
    /// The use of its process.
    pub(super) uses: Use,
    /// The native part as it was measured: memory that a smaller heap has not returned yet must not count as
    /// native, or the limit would rise by it.
    pub(super) native: Bytes,
    /// Its heap.
    pub(super) heap: &'a Snapshot,
    /// In use after the last collection.
    pub(super) used: Bytes,
    /// The most that the heap may ever take.
    pub(super) most: Bytes,
    /// The heap was as large as its limit allows, or nearly.
    pub(super) close: bool,
    /// The page of its agent.
    pub(super) page: Option<View<'a>>,
}

impl ByStalls {
    /// That of process `pid` by this policy; `counted`: whether its collections are counted.
    pub(super) fn of(policy: Policy, pid: u32, counted: bool) -> ByStalls {
        let (signal, told) = Signal::open(pid);
        for line in told {
            info!("process {pid}, stalls: {line}");
        }
        if !counted {
            warn!(
                "process {pid}: when it collects is not known without counters, so stalls do not size its \
                 heap"
            );
        }
        ByStalls {
            pid,
            feedback: match policy {
                Policy::Printed => Feedback::printed(),
                _ => Feedback::default(),
            },
            signal,
            domain: Domain::of_process(i32::try_from(pid).unwrap_or(-1)).ok(),
        }
    }

    /// The smaller of the broker's limit and that of the feedback; at least a byte.
    pub(super) fn limit(&mut self, goal: &Goal, look: Look<'_>) -> Bytes {
        let (granted, native, heap) = (goal.limit, look.native, look.heap);
        let uses = look.uses.whole;
        // A broker grants what is free, and knows what others are about to give back.
        let reach = match granted {
            Bytes::ZERO => self.reach(look.uses.resident),
            _ => Bytes::MAX,
        };
        let span = self.signal.read(look.page, heap.collections());
        let stalled = span.stalled;
        let holds = granted == Bytes::ZERO || self.feedback.size() + native <= granted;
        let turn = self.feedback.look(&Moment {
            now: look.now,
            collections: heap.collections(),
            whole: heap.work[1].invocations,
            heap: uses - native,
            used: look.used,
            most: look.most,
            reach: reach - native,
            span,
            few: self.signal.few(),
            keeps: granted > Bytes::ZERO && goal.owed == Bytes::ZERO && uses <= granted,
            close: look.close && holds,
        });
        let stalls = self.feedback.is_stalled();
        if stalls || stalled.any() {
            let takes = uses - native;
            self.tell(stalled, look.now, takes, heap);
        }
        self.turned(turn);
        let felt = (self.feedback.size() + native).max(Bytes(1));
        match granted {
            Bytes::ZERO => felt,
            granted if stalls => felt.min(granted),
            granted => granted,
        }
    }

    /// How many stalls there were although the program kept to a broker's limit.
    pub(super) fn within(&self) -> u64 {
        self.feedback.within()
    }

    /// The memory that the process may take, which has `resident` of it: that, and what is free
    /// beyond a part that stays free. `Bytes::MAX` if that is not known.
    fn reach(&mut self, resident: Bytes) -> Bytes {
        let reading = self.domain.as_mut().and_then(|domain| domain.read().ok());
        reading.map_or(Bytes::MAX, |reading| {
            let kept = (reading.capacity / FREE_PART).min(FREE_MOST);
            resident + (reading.room() - kept)
        })
    }

    /// One line for each look at a machine that stalls or is under the policy.
    fn tell(&self, stalled: Stalled, now: Nanos, takes: Bytes, heap: &Snapshot) {
        debug!(
            "process {} at {:.1} s: stalled {} times, {} ms; {} collections, {} ms in pauses; \
             heap {} MiB ({} committed, {} old), may be {} MiB",
            self.pid,
            now.duration().as_secs_f64(),
            stalled.count,
            stalled.time.0 / MILLISECOND,
            heap.collections(),
            heap.collecting_time().0 / MILLISECOND,
            takes.0 / MIB,
            heap.committed().0 / MIB,
            heap.old.used.0 / MIB,
            self.feedback.size().0 / MIB,
        );
    }

    /// Tells that the policy took the heap over or left it.
    fn turned(&self, turn: Option<Turn>) {
        let pid = self.pid;
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
