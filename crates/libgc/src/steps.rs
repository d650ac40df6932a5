//! Collections in steps ([`Looked::in_steps`]): a collection that would stop the program for long
//! is split into short pauses, between which the program runs and may allocate a little.

use crate::collect::{self, Why};
use crate::collector::{self, State};
use crate::stats::Cycle;
use crate::thread::blocking::with_registers;
use crate::{finalize, leaks, settings, stress};
use libc::c_int;
use plimsoll_heap::collection::{Emptied, Looked, Step};
use plimsoll_heap::{Heap, Residency, SUPERPAGE};
use std::time::Duration;

/// The duration of a step, unless the program sets one.
const STEP: Duration = Duration::from_millis(5);

/// The shortest step: in less time hardly anything is marked.
const SHORTEST: Duration = Duration::from_millis(1);

/// A collection that is expected to take less than this many steps is made in one pause.
const WORTH: u32 = 2;

/// The same for a heap with many holes. During the steps only free superpages are taken, and these
/// may never become free again.
const WORTH_IF_RAGGED: u32 = 10;

/// A heap of fewer bytes is marked in one pause: if that took long, something else had the processor.
const LARGE: usize = 4 << 20;

/// During the steps, the heap is meant to grow by one part in `GROWTH`. When it has grown by more
/// than one part in `MOST`, because the steps take longer than expected or large objects were
/// allocated, the last step is next.
const GROWTH: usize = 16;
const MOST: usize = 8;

/// The fewest superpages to allow between two steps: 256 KiB.
const LEAST: usize = (256 << 10) / SUPERPAGE;

/// The state of a collection in steps.
#[derive(Default)]
pub(crate) enum Steps {
    #[default]
    None,
    /// There is more to mark.
    Marking(Begun),
    /// The last step is next.
    Marked(Begun),
    /// The collection was given up, because it is unknown what was left to do. It is made in one
    /// pause when it is due again.
    Lost,
}

/// A collection in steps that is under way.
pub(crate) struct Begun {
    pub(crate) cycle: Cycle,
    /// It is a collection of young objects.
    pub(crate) young: bool,
    /// The result of its first look.
    pub(crate) residency: Residency,
    /// When the heap has more superpages than this, the last step is next.
    pub(crate) most: usize,
}

impl Steps {
    pub(crate) fn are_under_way(&self) -> bool {
        !matches!(self, Steps::None)
    }

    /// Whether a collection of young objects is under way in steps.
    pub(crate) fn are_young(&self) -> bool {
        matches!(self, Steps::Marking(begun) | Steps::Marked(begun) if begun.young)
    }

    /// Makes the last step the next one, and returns the reason to give for it.
    pub(crate) fn hurry(&mut self) -> Why {
        match std::mem::take(self) {
            Steps::Marking(begun) | Steps::Marked(begun) => {
                *self = Steps::Marked(begun);
                Why::Allocation
            }
            other => {
                *self = other;
                Why::Lack
            }
        }
    }

    /// Takes the state for the next step, if this collection goes on.
    pub(crate) fn next(&mut self, goes_on: bool) -> Steps {
        match self {
            Steps::Marking(_) | Steps::Marked(_) if goes_on => std::mem::take(self),
            _ => Steps::None,
        }
    }
}

/// The time limit of a step, if the program set one.
fn limit(state: &State) -> Option<Duration> {
    let limit = settings::time_limit().filter(|_| state.incremental.is_on())?;
    Some(limit.max(SHORTEST))
}

/// How long a step may take.
pub(crate) fn time(state: &State) -> Duration {
    limit(state).or_else(stress::step).unwrap_or(STEP)
}

/// Whether the collection that begins, which the program did not ask for, should be made in steps.
/// It also has to be possible.
pub(crate) fn are_wanted(heap: &Heap, state: &State, young: bool) -> bool {
    state.incremental.may_track()
        && !state.surroundings.is_tight()
        && state.disclaims.is_empty()
        && !leaks::wanted()
        && stress::wants_steps().unwrap_or_else(|| {
            let worth = match state.pace.is_ragged() {
                true => WORTH_IF_RAGGED,
                false => WORTH,
            };
            state.central.used() * SUPERPAGE >= LARGE
                && !state.pace.wants_complete()
                && state.stats.expected(heap, young) > limit(state).unwrap_or(worth * STEP)
        })
        && heap.can_step(&state.central)
}

/// Bytes to reserve for allocation during the steps of the next whole collection; 0 if it will not
/// be made in steps.
pub(crate) fn reserve(heap: &Heap, state: &State) -> usize {
    match are_wanted(heap, state, false) {
        true => state.central.used() * SUPERPAGE / GROWTH,
        false => 0,
    }
}

/// Begins a collection in steps, if there is room for its steps and not too much to scan twice.
pub(crate) fn begin<'h>(
    heap: &Heap,
    state: &mut State,
    looked: Looked<'h>,
    young: bool,
) -> Result<Step<'h>, Looked<'h>> {
    match leave(heap, state, young, 1) {
        true => looked.in_steps(&mut state.central),
        false => Err(looked),
    }
}

impl Begun {
    pub(crate) fn new(state: &State, cycle: Cycle, young: bool, residency: Residency) -> Begun {
        Begun {
            cycle,
            young,
            residency,
            most: most(state),
        }
    }
}

/// Raises the limit for what is allocated until the next step: by at least `superpages` superpages.
/// False if there is no room.
pub(crate) fn leave(heap: &Heap, state: &mut State, young: bool, superpages: usize) -> bool {
    // With the last step, which scans new and written objects, the work is about twice as much.
    let usual = state.central.used() / GROWTH / 2;
    let room = usual.min(state.pace.fills(&state.central));
    let expected = state.stats.expected(heap, young).max(STEP).as_nanos();
    let part = room as u128 * time(state).as_nanos() / expected;
    let wanted = usize::try_from(part)
        .unwrap_or(0)
        .max(LEAST)
        .max(superpages);
    state.pace.step(&mut state.central, wanted)
}

/// The size in superpages beyond which the last step is next.
fn most(state: &State) -> usize {
    let used = state.central.used();
    used + (used / MOST).max(4 * LEAST)
}

/// The state after a step.
pub(crate) fn after(state: &State, begun: Begun, done: bool) -> Steps {
    // A callback may have forked: then the child has reset the state.
    if state.steps.are_under_way() {
        Steps::Lost
    } else if done || state.central.used() > begun.most {
        Steps::Marked(begun)
    } else {
        Steps::Marking(begun)
    }
}

/// Gives up the steps that are under way, if any: the collection that begins is made in one pause.
/// Returns whether there were any.
pub(crate) fn give_up(emptied: &Emptied<'_>, state: &mut State) -> bool {
    if !std::mem::take(&mut state.steps).are_under_way() {
        return false;
    }
    emptied.give_up(&state.central, &mut state.marker, state.crew);
    // The objects will be counted again.
    state.marker.take_marking();
    true
}

/// Called in a child of fork, where the helpers are missing. The child may be inside a callback of
/// a step.
pub(crate) fn forked(heap: &Heap, state: &mut State) {
    if heap.is_stepping() {
        state.marker.forget();
        state.steps = Steps::Lost;
    }
}

/// Begins a collection, or does the next step of one, if the collector may collect. Returns whether
/// there is more to do.
fn do_some(begin: bool) -> bool {
    let mut gc = collector::lock();
    let due = gc.steps.are_under_way() != begin && gc.incremental.is_on();
    let may = due && collect::may_go_on();
    let why = if begin { Why::Begun } else { Why::Allocation };
    if may {
        with_registers(|here| collect::collect(&mut gc, why, here));
    }
    let more = may && gc.steps.are_under_way();
    let due = gc.finalization.is_due();
    drop(gc);
    if due {
        finalize::notify_or_invoke();
    }
    more
}

/// Does something in incremental mode only.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_collect_a_little() -> c_int {
    c_int::from(do_some(false))
}

/// Does something in incremental mode only. If the collection is worth it, it is made in steps, by
/// threads that allocate and by [`GC_collect_a_little`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_incremental_collection() {
    do_some(true);
}
