//! Collections of young objects, by mark bits that stay and the kernel's tracking of writes: where
//! they are worth it, by themselves ([`plimsoll_policy::generations`]); most of them, where the
//! program asks for incremental mode, which also says how long [steps](crate::steps) may be.

use crate::collector::{self, State};
use crate::settings::GC_full_freq;
use crate::{footprint, leaks, report, stress};
use libc::c_int;
use plimsoll_heap::{Heap, Residency, SUPERPAGE, Watch};
use plimsoll_policy::generations::{Ended, Generations};
use std::time::Duration;

/// In the mode old objects are collected, too, when this much more lives than after they were collected last.
const GROWTH: u64 = 2;

/// A smaller heap is collected whole.
const WORTH: usize = 4 << 20;

/// What the first write to an armed superpage costs the program: a fault for each of its pages, of
/// two to three microseconds on a virtual machine.
const WRITE: Duration = Duration::from_micros(10);

/// Whether collections may be of young objects, and what the last were like.
#[derive(Default)]
pub(crate) struct Incremental {
    /// The program asked for the mode.
    on: bool,
    /// The user wants neither these nor steps.
    pub(crate) forbidden: bool,
    /// Bytes that lived after the last whole collection.
    live: u64,
    generations: Generations,
    /// All that is marked is armed.
    watched: bool,
    /// Bytes that were allocated until the last collection.
    allocated: u64,
}

/// Whether the collection that begins, which the program did not ask for, is of young objects.
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

/// Whose writes are to show until the next collection, if anybody wants to know. The world is
/// stopped, and all is marked.
pub(crate) fn watch(
    heap: &Heap,
    state: &mut State,
    young: bool,
    residency: &Residency,
) -> Option<Watch> {
    let still = is_for_eviction(state, residency);
    let survival = survival(heap, state, young);
    let it = &mut state.incremental;
    // In holes everywhere new objects come to lie among old ones: all would be looked into.
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

/// Whether writes are to tell what lies still, for it may have to go to swap.
fn is_for_eviction(state: &State, residency: &Residency) -> bool {
    residency.absent > 0 || state.surroundings.is_short()
}

/// Whether writes are to show no more where threads will allocate: a collection in steps had all
/// show, or what was watched died.
pub(crate) fn unwatches(state: &State, residency: &Residency, young: bool, in_steps: bool) -> bool {
    (!young || in_steps) && !is_for_eviction(state, residency)
}

/// What part lives of what was allocated since the last collection, about: before the census
/// objects are counted, bytes are not.
fn survival(heap: &Heap, state: &State, young: bool) -> f64 {
    let (objects, live) = state.stats.last();
    let gone = if young { 0 } else { objects };
    let grown = state.marker.marked().saturating_sub(gone) as f64 * live as f64;
    let allocated = heap.allocated() - state.incremental.allocated;
    grown / (objects.max(1) as f64 * allocated.max(1) as f64)
}

impl Incremental {
    /// The program asked for the mode.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether the user lets writes be tracked.
    pub(crate) fn may_track(&self) -> bool {
        !self.forbidden
    }

    /// What a collection is to be judged by, that ended just now.
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

    /// What a collection costs lately, ns, with one that is not noted yet.
    pub(crate) fn mean_cost(&self, young: bool, ended: &Ended) -> u64 {
        self.generations.mean_cost(young, ended.cost)
    }

    /// A collection of young objects ended: bytes to allocate at most until the next, if that is
    /// for this to say.
    pub(crate) fn after_young(&mut self, ended: &Ended) -> Option<usize> {
        let left = self.generations.after_young(ended);
        (!self.on).then(|| usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// A whole one ended, and so many bytes may be allocated until the next.
    pub(crate) fn after_whole(&mut self, ended: &Ended, allowance: usize) {
        self.live = ended.live;
        self.generations.after_whole(ended, allowance as u64);
    }
}

/// Turns the mode on, where the kernel tracks writes.
pub(crate) fn turn_on(heap: &Heap, state: &mut State) {
    if state.incremental.on || leaks::wanted() || state.incremental.forbidden {
        return;
    }
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

/// `GC_PROTECTS_NONE`: the kernel notes writes by itself, and no system call meets a page that it
/// may not write to.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}
