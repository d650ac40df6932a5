//! Plans a collection. Nothing here changes anything.

use crate::cycle::Why;
use crate::footprint::Surroundings;
use crate::front_end::Conditions;
use crate::incremental;
use crate::pace::Pace;
use crate::statistics::Statistics;
use crate::young::Young;
use plimsoll_heap::{Central, Heap, Look, Residency};

/// The facts for a decision.
pub(crate) struct Facts<'a> {
    pub(crate) heap: &'a Heap,
    pub(crate) central: &'a Central,
    pub(crate) pace: &'a Pace,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) young: &'a Young,
    pub(crate) statistics: &'a Statistics,
    pub(crate) conditions: &'a Conditions,
    /// Objects may move while they are marked ([`Space::MOVES`](plimsoll_heap::mark::Space::MOVES)).
    pub(crate) moves: bool,
}

/// An incremental collection, when its last step begins.
pub(crate) struct Earlier {
    pub(crate) young: bool,
    /// The pages' residency that its first look found.
    pub(crate) residency: Residency,
}

/// The objects that a collection covers, and the way in which it is made.
pub(crate) struct Plan {
    pub(crate) look: Look,
    /// This is the first step of several, if that is possible.
    pub(crate) incremental: bool,
}

impl Facts<'_> {
    /// Plans the collection that begins or, if there is an `earlier` one, its last step. `given_up`: steps
    /// were given up, so it has to be a whole one.
    pub(crate) fn plan(&self, why: Why, earlier: Option<&Earlier>, given_up: bool) -> Plan {
        let begins = earlier.is_none() && !given_up;
        let complete = self.pace.wants_complete();
        let live = self.statistics.live();
        let may_be_young = begins
            && why == Why::Allocation
            && !complete
            && !self.surroundings.tight
            && self.young.is_next(self.heap, live, self.conditions);
        let young = earlier.map_or(may_be_young, |earlier| earlier.young);
        Plan {
            look: Look { complete, young },
            incremental: begins
                && matches!(why, Why::Allocation | Why::Young | Why::Begun)
                && self.is_incremental(young),
        }
    }

    /// Whether a collection that begins, which the program did not ask for, should be incremental.
    /// It also has to be possible.
    pub(crate) fn is_incremental(&self, young: bool) -> bool {
        let is_worth = || {
            let expected = self.statistics.expected(self.heap, young);
            let overhead = self.statistics.forecast.overhead();
            let limit = incremental::limit(self.young.on, self.conditions);
            incremental::is_worth(self.central, self.pace, (expected, overhead), limit)
        };
        let stress = self.conditions.stress;
        !self.young.forbidden
            && !self.surroundings.tight
            && !self.conditions.whole
            && !self.moves
            && stress.map_or_else(is_worth, |stress| stress.incremental)
            && self.heap.can_step(self.central)
    }
}
