//! Collections of young objects, by sticky mark bits and the kernel's tracking of writes. They
//! happen by themselves where they are worth it ([`plimsoll_policy::generations`]). In incremental
//! mode, which a program asks for, most collections are of that kind, and the mode sets how long
//! [steps](crate::steps) may be.

use crate::collector::{self, State};
use crate::settings::GC_full_freq;
use crate::{footprint, leaks, report, stress};
use libc::c_int;
use plimsoll_heap::{Heap, Residency, SUPERPAGE, Watch};
use plimsoll_policy::generations::{Ended, Generations};
use std::time::Duration;

/// In incremental mode, old objects are collected as well once this many times more bytes live than
/// after they were last collected.
const GROWTH: u64 = 2;

/// A heap of fewer bytes is collected as a whole.
const WORTH: usize = 4 << 20;

/// What the first write to an armed superpage costs the program: a fault for each of its pages, 2
/// to 3 microseconds each on a virtual machine.
const WRITE: Duration = Duration::from_micros(10);

/// Whether collections may be of young objects, and statistics of the last ones. Guarded by the
/// collector's lock.
#[derive(Default)]
pub(crate) struct Incremental {
    /// The program asked for incremental mode.
    on: bool,
    /// The user forbids both collections of young objects and steps.
    pub(crate) forbidden: bool,
    /// Bytes that lived after the last whole collection.
    live: u64,
    /// Decides whether a collection of young objects is worth it.
    generations: Generations,
    /// All superpages with marked objects are armed.
    watched: bool,
    /// Bytes ever allocated as of the last collection.
    allocated: u64,
}

/// Whether the collection that begins, which the program did not ask for, is to be of young
/// objects.
pub(crate) fn is_young(heap: &Heap, state: &State) -> bool {
    let it = &state.incremental;
    let may = it.watched
        && heap.is_tracked()
        && it.generations.count() < GC_full_freq.get().max(0) as u32
        && state.disclaims.is_empty()
        && !leaks::wanted();
    may && if it.on {
        state.stats.live() < it.live.saturating_mul(GROWTH)
    } else {
        stress::wants_young()
            .unwrap_or_else(|| it.generations.is_young(heap.allocated() - it.allocated))
    }
}

/// Which superpages to watch until the next collection, if any. The world is stopped, and
/// everything is marked.
pub(crate) fn watch(
    heap: &Heap,
    state: &mut State,
    young: bool,
    residency: &Residency,
) -> Option<Watch> {
    let still = is_for_eviction(state, residency);
    let survival = survival(heap, state, young);
    let it = &mut state.incremental;
    // If there are many holes, new objects lie among old ones, and everything would have to be
    // scanned again.
    let worth = state.central.used() * SUPERPAGE >= WORTH
        && !state.pace.is_ragged()
        && it.generations.may_be_young(survival);
    it.watched = !it.forbidden && (it.on || worth || stress::wants_young().is_some());
    match (it.watched, still) {
        (_, true) => Some(Watch::Still),
        (true, false) => Some(Watch::Old),
        (false, false) => None,
    }
}

/// Whether to watch for superpages that are not written to, because some may have to go to swap.
fn is_for_eviction(state: &State, residency: &Residency) -> bool {
    residency.absent > 0 || state.surroundings.is_short()
}

/// Whether to disarm superpages into which threads will allocate: a collection in steps armed all
/// of them, or watched objects have died.
pub(crate) fn unwatches(state: &State, residency: &Residency, young: bool, in_steps: bool) -> bool {
    (!young || in_steps) && !is_for_eviction(state, residency)
}

/// The approximate share of the bytes allocated since the last collection that is still alive. It
/// is an estimate, because before the census only objects are counted, not bytes.
fn survival(heap: &Heap, state: &State, young: bool) -> f64 {
    let (objects, live) = state.stats.last();
    let gone = if young { 0 } else { objects };
    let grown = state.marker.marked().saturating_sub(gone) as f64 * live as f64;
    let allocated = heap.allocated() - state.incremental.allocated;
    grown / (objects.max(1) as f64 * allocated.max(1) as f64)
}

impl Incremental {
    /// Whether the program asked for incremental mode.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether the user lets writes be tracked.
    pub(crate) fn may_track(&self) -> bool {
        !self.forbidden
    }

    /// Records the collection that just ended, and returns the figures by which it is judged.
    pub(crate) fn note(&mut self, heap: &Heap, ended: &footprint::Ended<'_>) -> Ended {
        let before = std::mem::replace(&mut self.allocated, heap.allocated());
        let written = u32::try_from(ended.residency.written).unwrap_or(u32::MAX);
        let cost = ended.took + WRITE * written;
        Ended {
            cost: u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX),
            live: (ended.found.composite + ended.found.atomic) as u64,
            allocated: self.allocated - before,
        }
    }

    /// Whether the last collection was of young objects.
    pub(crate) fn was_young(&self) -> bool {
        self.generations.count() > 0
    }

    /// The mean cost of recent collections in nanoseconds, including one that is not recorded yet.
    pub(crate) fn mean_cost(&self, young: bool, ended: &Ended) -> u64 {
        self.generations.mean_cost(young, ended.cost)
    }

    /// Notes the end of a collection of young objects. Returns the most bytes to allocate until the
    /// next one; `None` in incremental mode, where this has no say.
    pub(crate) fn after_young(&mut self, ended: &Ended) -> Option<usize> {
        let left = self.generations.after_young(ended);
        (!self.on).then(|| usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Notes the end of a whole collection; `allowance` bytes may be allocated until the next.
    pub(crate) fn after_whole(&mut self, ended: &Ended, allowance: usize) {
        self.live = ended.live;
        self.generations.after_whole(ended, allowance as u64);
    }
}

/// Turns incremental mode on, if the kernel tracks writes.
pub(crate) fn turn_on(heap: &Heap, state: &mut State) {
    if state.incremental.on || leaks::wanted() || state.incremental.forbidden {
        return;
    }
    state.central.begin(heap);
    if heap.can_watch() {
        state.incremental.on = true;
    } else {
        report::warn(
            c"Incremental mode needs a kernel that tracks writes (Linux 6.7, userfaultfd): it stays off\n",
            0,
        );
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_enable_incremental() {
    let mut gc = collector::lock();
    let heap = gc.heap;
    turn_on(heap, &mut gc);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_incremental_mode() -> c_int {
    c_int::from(collector::is_ready() && collector::either().incremental.on)
}

/// `GC_PROTECTS_NONE`: the kernel itself records writes, so no system call fails because a page is
/// write-protected.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}
