//! Incremental marking ([`Looked::in_steps`](plimsoll_heap::collection::Looked::in_steps)): a collection
//! that would stop the program for long is split into steps, short pauses between which the program runs and
//! may allocate a little.

use crate::cycle::{Cycle, Why};
use crate::front_end::Conditions;
use crate::pace::Pace;
use plimsoll_heap::{Central, Residency, SUPERPAGE};
use std::time::Duration;

/// The duration of a step, unless the program sets one or a stop takes longer.
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

/// The state of incremental marking.
#[derive(Default)]
pub(crate) enum Incremental {
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

/// An incremental collection that is under way.
pub(crate) struct Begun {
    pub(crate) cycle: Cycle,
    /// It is a collection of young objects.
    pub(crate) young: bool,
    /// The result of its first look.
    pub(crate) residency: Residency,
    /// When the heap has more superpages than this, the last step is next.
    pub(crate) most: usize,
}

impl Incremental {
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self, Incremental::None)
    }

    /// Whether a collection of young objects is under way.
    pub(crate) fn is_young(&self) -> bool {
        matches!(self, Incremental::Marking(begun) | Incremental::Marked(begun) if begun.young)
    }

    /// Makes the last step the next one, and returns the reason to give for it.
    pub(crate) fn hurry(&mut self) -> Why {
        match std::mem::take(self) {
            Incremental::Marking(begun) | Incremental::Marked(begun) => {
                *self = Incremental::Marked(begun);
                Why::Allocation
            }
            other => {
                *self = other;
                Why::Lack
            }
        }
    }

    /// Takes the state for the next step, if this collection goes on.
    pub(crate) fn next(&mut self, goes_on: bool) -> Incremental {
        match self {
            Incremental::Marking(_) | Incremental::Marked(_) if goes_on => std::mem::take(self),
            _ => Incremental::None,
        }
    }

    /// Notes the end of a step, when the heap has `used` superpages. `done`: everything is marked.
    pub(crate) fn after(&mut self, begun: Begun, done: bool, used: usize) {
        // A callback may have forked: then the child has reset the state.
        *self = if self.is_under_way() {
            Incremental::Lost
        } else if done || used > begun.most {
            Incremental::Marked(begun)
        } else {
            Incremental::Marking(begun)
        };
    }
}

/// The time limit of a step, if the program set one. `on`: it asked for incremental mode.
pub(crate) fn limit(on: bool, conditions: &Conditions) -> Option<Duration> {
    let limit = conditions.pause.filter(|_| on)?;
    Some(limit.max(SHORTEST))
}

/// How long a step may mark, if a stop takes `overhead` besides. A step that marked for less would cost more
/// than it saves.
fn budget(overhead: Duration) -> Duration {
    STEP.max(overhead)
}

/// How long a step may take, if a stop takes `overhead` without marking.
pub(crate) fn time(on: bool, conditions: &Conditions, overhead: Duration) -> Duration {
    limit(on, conditions)
        .or_else(|| conditions.stress.map(|stress| stress.step))
        .unwrap_or(budget(overhead))
}

/// Whether a collection that would mark for `expected` in one pause is worth being incremental, if a stop
/// takes `overhead` without marking.
pub(crate) fn is_worth(
    central: &Central,
    pace: &Pace,
    (expected, overhead): (Duration, Duration),
    limit: Option<Duration>,
) -> bool {
    central.used() * SUPERPAGE >= LARGE
        && !pace.wants_complete()
        && expected > limit.unwrap_or(least(pace.is_ragged(), overhead))
}

/// A collection that is expected to mark for less is made in one pause.
fn least(is_ragged: bool, overhead: Duration) -> Duration {
    let worth = if is_ragged { WORTH_IF_RAGGED } else { WORTH };
    worth * budget(overhead)
}

/// Bytes to reserve for allocation during the steps of the next collection.
pub(crate) fn reserve(central: &Central) -> usize {
    central.used() * SUPERPAGE / GROWTH
}

/// Raises the limit for what is allocated until the next step, which takes `time` of the `expected`
/// duration: by at least `superpages` superpages. False if there is no room.
pub(crate) fn make_room(
    central: &mut Central,
    pace: &Pace,
    expected: Duration,
    time: Duration,
    superpages: usize,
) -> bool {
    // With the last step, which scans new and written objects, the work is about twice as much.
    let usual = central.used() / GROWTH / 2;
    let room = usual.min(pace.fills(central));
    let expected = expected.max(STEP).as_nanos();
    let part = room as u128 * time.as_nanos() / expected;
    let wanted = usize::try_from(part)
        .unwrap_or(0)
        .max(LEAST)
        .max(superpages);
    pace.step(central, wanted)
}

/// The size in superpages beyond which the last step is next, of a heap that has `used` when it begins.
pub(crate) fn most(used: usize) -> usize {
    used + (used / MOST).max(4 * LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_step_marks_for_at_least_as_long_as_its_stop_takes() {
        let conditions = Conditions::default();
        assert_eq!(time(false, &conditions, ms(1)), STEP);
        assert_eq!(time(false, &conditions, ms(25)), ms(25));
        // The program's own wish goes first, if it asked for short pauses.
        let wishes = Conditions {
            pause: Some(ms(2)),
            ..conditions
        };
        assert_eq!(time(true, &wishes, ms(25)), ms(2));
        assert_eq!(time(false, &wishes, ms(25)), ms(25));
    }

    #[test]
    fn what_few_stops_would_mark_is_marked_in_one_pause() {
        assert_eq!(least(false, ms(0)), WORTH * STEP);
        assert_eq!(least(false, ms(25)), WORTH * ms(25));
        assert_eq!(least(true, ms(25)), WORTH_IF_RAGGED * ms(25));
    }
}
