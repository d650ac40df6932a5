//! The controller's input and its actions, and how close to a limit is close.

use crate::hotspot::snapshot::Snapshot;
use plimsoll_unit::{Bytes, Nanos};

/// One moment of the machine and of its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Monotonic time since the steering began.
    pub now: Nanos,
    /// The bytes that the process may use now.
    pub limit: Bytes,
    /// The availability: what the process could have if it asked; 0 if not known.
    pub available: Bytes,
    /// The bytes that the process must give back; 0 if none.
    pub owed: Bytes,
    /// The bytes that the process uses.
    pub uses: Bytes,
    /// The native part of the process, as last measured.
    pub native: Bytes,
    /// The bytes that are kept free for sudden growth of native memory; 0 where an excess can be paged out.
    pub spare: Bytes,
    /// The bytes that are kept free as far as the heap can do without them, if its collector gives
    /// memory back late: `spare` or more. 0 with other collectors, where an excess can be paged out,
    /// and where the program's own stalls tell how large the heap is to be.
    pub ample: Bytes,
    /// The part of `spare` that must remain until a collection is under way.
    pub kept: Bytes,
    /// Processor time of the process so far, without that of requested commands; 0 if
    /// it cannot be read.
    pub processor: Nanos,
    /// The time that requested commands took so far.
    pub asked: Nanos,
    /// Its major faults so far.
    pub major_faults: u64,
    /// The work of a collector that works beside the program so far, as the time of pauses in which it would
    /// have done the same, without that of requested collections; `None` with other collectors,
    /// or if it cannot be read.
    pub beside: Option<Nanos>,
    /// An agent gives back what is above the limit at the end of each collection.
    pub empties: bool,
    /// The collections that the agent asks for by itself, at its bound; `None` where it does not do that.
    pub at_bound: Option<AtBound>,
    /// Its heap.
    pub heap: Snapshot,
}

impl Seen {
    /// Whether the use is so far above the limit that the heap must become smaller.
    pub(super) fn is_urgent(&self) -> bool {
        let near = self.limit + tolerance(self.limit);
        self.uses + self.kept > near
    }

    /// Whether an agent gives back the garbage that a collection finds, and what exceeds the limit until then
    /// can be paged out.
    pub(super) fn frees_garbage(&self) -> bool {
        self.empties && self.spare == Bytes::ZERO
    }

    /// The time that collections took from the program so far. The counters tell it of pauses;
    /// Shenandoah's count its cycles too, some of them twice.
    pub(super) fn collecting(&self) -> Nanos {
        self.beside.unwrap_or(self.heap.collecting_time())
    }
}

/// The agent's own collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtBound {
    /// How many it asked for so far.
    pub asked: u64,
    /// The heap that its last pause left in use.
    pub left: Bytes,
}

/// One thing to do to the machine. A list of them is carried out in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets a manageable flag to a value in the flag's own unit.
    Set(&'static str, u64),
    /// Asks for a collection and waits for its end.
    Collect,
    /// Asks for a collection of the whole heap that stops the program, where the usual collection
    /// does not.
    CollectWhole,
    /// Makes malloc return free memory to the system.
    TrimNative,
    /// Measures the native part again.
    Measure,
}

/// How long G1, which returns memory concurrently, may take for that after the collection that made
/// the heap smaller.
pub(in crate::hotspot) const RETURNING: Nanos = Nanos::millis(400);

/// The most live bytes that a collection which stops the program collects within about a fifth of a second.
pub(super) const SMALL: Bytes = Bytes::mib(256);

/// How far the use may exceed the limit before something is done.
pub(super) fn tolerance(limit: Bytes) -> Bytes {
    (limit / 66).max(Bytes::mib(3))
}

/// How far a size may be from its aim before the difference is worth a collection.
pub(super) fn slack(limit: Bytes) -> Bytes {
    (limit / 40).max(Bytes::mib(10))
}
