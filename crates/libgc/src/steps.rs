//! Collections in steps ([`Looked::in_steps`]): where the program would stand still for long, it
//! does so a little at a time, and allocates a little in between.

use crate::collect::{self, Why};
use crate::collector::{self, State};
use crate::stats::Cycle;
use crate::thread::blocking::with_registers;
use crate::{finalize, leaks, settings, stress};
use libc::c_int;
use plimsoll_heap::collection::{Emptied, Looked, Step};
use plimsoll_heap::{Heap, Residency, SUPERPAGE};
use std::time::Duration;

/// How long a step is, where the program does not say.
const STEP: Duration = Duration::from_millis(5);

/// In less nothing much is marked.
const SHORTEST: Duration = Duration::from_millis(1);

/// And a collection that is expected to take less than so many of these is made at once.
const WORTH: u32 = 2;

/// The same for a heap with holes everywhere. During the steps only free superpages are taken, and none
/// of these may ever become free again.
const WORTH_IF_RAGGED: u32 = 10;

/// While it is made in steps, the heap is to grow by one in so many parts; where it comes to be by
/// more than one in so many, since they take longer than expected or large objects were allocated,
/// the last step is next.
const GROWTH: usize = 16;
const MOST: usize = 8;

/// The least superpages between two steps: 256 KiB.
const LEAST: usize = (256 << 10) / SUPERPAGE;

/// What has come of the collection that is under way, if one is.
#[derive(Default)]
pub(crate) enum Steps {
    #[default]
    None,
    /// There is more to mark.
    Marking(Begun),
    /// The last step is next.
    Marked(Begun),
    /// It is given up, and made at once when it is due again: nobody knows any more what was left to do.
    Lost,
}

/// One that is under way.
pub(crate) struct Begun {
    pub(crate) cycle: Cycle,
    /// It is of young objects.
    pub(crate) young: bool,
    /// What the look that it began with found.
    pub(crate) residency: Residency,
    /// With more superpages than these the last step is next.
    pub(crate) most: usize,
}

impl Steps {
    pub(crate) fn are_under_way(&self) -> bool {
        !matches!(self, Steps::None)
    }

    /// Whether that is of young objects.
    pub(crate) fn are_young(&self) -> bool {
        matches!(self, Steps::Marking(begun) | Steps::Marked(begun) if begun.young)
    }

    /// Has the last step come next, and says why that collects.
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

    /// Takes what comes next, if this collection goes on.
    pub(crate) fn next(&mut self, goes_on: bool) -> Steps {
        match self {
            Steps::Marking(_) | Steps::Marked(_) if goes_on => std::mem::take(self),
            _ => Steps::None,
        }
    }
}

/// How long a step may take, where the program says so.
fn limit(state: &State) -> Option<Duration> {
    let limit = settings::time_limit().filter(|_| state.incremental.is_on())?;
    Some(limit.max(SHORTEST))
}

/// How long one may take.
pub(crate) fn time(state: &State) -> Duration {
    limit(state).or_else(stress::step).unwrap_or(STEP)
}

/// Whether the collection that begins, which the program did not ask for, is to be made in steps, if it can.
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
            !state.pace.wants_complete()
                && state.stats.expected(heap, young) > limit(state).unwrap_or(worth * STEP)
        })
        && heap.can_step(&state.central)
}

/// Bytes to leave for what is allocated while the next whole collection is made in steps, if it will be.
pub(crate) fn reserve(heap: &Heap, state: &State) -> usize {
    match are_wanted(heap, state, false) {
        true => state.central.used() * SUPERPAGE / GROWTH,
        false => 0,
    }
}

/// Begins one, if there is room for that, and not too much to look into twice.
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

/// Leaves room for what is allocated until the next step, so many superpages at least. False where
/// there is none.
pub(crate) fn leave(heap: &Heap, state: &mut State, young: bool, superpages: usize) -> bool {
    // With the last step, which looks into what is new and what was written to, it is about twice
    // as much work.
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

/// How many superpages the heap may have before the last step is next.
fn most(state: &State) -> usize {
    let used = state.central.used();
    used + (used / MOST).max(4 * LEAST)
}

/// What has come of one of which a step ended.
pub(crate) fn after(state: &State, begun: Begun, done: bool) -> Steps {
    // A callback may have forked.
    if state.steps.are_under_way() {
        Steps::Lost
    } else if done || state.central.used() > begun.most {
        Steps::Marked(begun)
    } else {
        Steps::Marking(begun)
    }
}

/// If one is under way it has no last step: what was marked for that is forgotten, and the
/// collection that begins is made at once. Whether one was.
pub(crate) fn give_up(emptied: &Emptied<'_>, state: &mut State) -> bool {
    if !std::mem::take(&mut state.steps).are_under_way() {
        return false;
    }
    emptied.give_up(&state.central, &mut state.marker, state.crew);
    // It will be counted anew.
    state.marker.take_marking();
    true
}

/// In a child of fork, where nobody helps any more. It may be in a callback of a step's.
pub(crate) fn forked(heap: &Heap, state: &mut State) {
    if heap.is_stepping() {
        state.marker.forget();
        state.steps = Steps::Lost;
    }
}

/// Begins a collection, or does the next step of one, if the collector may collect. Whether there
/// is more to do.
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

/// In incremental mode.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_collect_a_little() -> c_int {
    c_int::from(do_some(false))
}

/// In incremental mode: one that is worth it is made in steps, by allocating threads and
/// [`GC_collect_a_little`].
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_incremental_collection() {
    do_some(true);
}
