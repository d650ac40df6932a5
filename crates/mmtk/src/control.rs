//! The handle by which the runtime and its threads change a heap's limit.

use crate::shared::Shared;
use plimsoll_kernel::stalls::Tier;
use plimsoll_unit::{Bytes, Nanos};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A handle on a heap's limit. Cheap to clone; any thread may use it, and no call blocks or calls
/// into MMTk.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
}

/// Figures of a heap since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The present limit.
    pub limit: Bytes,
    /// The largest limit ever.
    pub max: Bytes,
    /// In use after the last collection of the whole heap; 0 before the first.
    pub live: Bytes,
    /// Collections.
    pub collections: u64,
    /// Collections of the whole heap.
    pub full: u64,
    /// Collections that [`Control::collect`] made happen.
    pub wanted: u64,
    /// Requests that waited for a collection and were counted into the limit after it.
    pub let_in: u32,
    /// Time that the program was stopped.
    pub stopped: Nanos,
    /// Stalls of the process, in the unit of the tier.
    pub stalls: u64,
    /// Collections since whose predecessor there were stalls.
    pub stalled: u64,
    /// Given back to the kernel.
    pub given_back: Bytes,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>) -> Control {
        Control { shared }
    }

    /// MMTk can collect from now on: the runtime calls this right after `initialize_collection`, because a
    /// trigger cannot see it. Until then, or until the first collection, no bound and no wish counts: MMTk
    /// 0.33 panics if a trigger asks for a collection before.
    pub fn ready(&self) {
        self.shared.make_ready();
    }

    /// The present limit. It holds at the next poll: every 32 to 64 KiB of allocation.
    pub fn limit(&self) -> Bytes {
        self.shared.limit()
    }

    /// The largest limit ever. For what a runtime must know before the heap exists, such as
    /// whether it may compress references: MMTk's own `GCTriggerSelector::max_heap_size` panics for a
    /// delegated trigger.
    pub fn max(&self) -> Bytes {
        self.shared.max()
    }

    /// Bounds the heap by hand, at once: the limit is at most `bytes` ([`Bytes::MAX`] for no bound),
    /// except that the heap may always keep what lives and a little more. A broker that is followed
    /// overwrites it.
    pub fn bound(&self, bytes: Bytes) {
        self.shared.set_bound(bytes);
    }

    /// Asks for a collection at the next poll of any program thread. This never asks MMTk itself:
    /// in 0.33 that panics if a thread that is no mutator does it in a pause. While all threads of the
    /// program are idle none polls; an idle loop may call `memory_manager::gc_poll` from time to time.
    pub fn collect(&self) {
        self.shared.want();
    }

    /// The signal by which stalls were known at the last collection, in words: `delay accounting`,
    /// `major faults`, …; `none` without one. It changes when the one before does not work any more, and in
    /// a child after a fork.
    pub fn tier(&self) -> &'static str {
        self.shared.tier().map_or("none", Tier::name)
    }

    /// Figures for logs.
    pub fn figures(&self) -> Figures {
        let told = &self.shared.told;
        Figures {
            collections: told.collections.load(Acquire),
            limit: self.shared.limit(),
            max: self.shared.max(),
            live: Bytes(told.live.load(Relaxed)),
            full: told.full.load(Relaxed),
            wanted: told.wanted.load(Relaxed),
            let_in: told.let_in.load(Relaxed),
            stopped: Nanos(told.stopped.load(Relaxed)),
            stalls: told.stalls.load(Relaxed),
            stalled: told.stalled.load(Relaxed),
            given_back: Bytes(told.given_back.load(Relaxed)),
        }
    }
}
