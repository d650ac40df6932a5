//! Heaps of one size into which the agent is loaded. Their size is never changed, but what the agent gives
//! back at the end of a collection is not resident. So a collection is asked for when the program fills the
//! heap beyond its limit: in its share of the time, and where it owes memory, as often as that helps.
//!
//! A concurrent cycle frees what is young, and the program fills as much again while it marks. Old garbage
//! goes only in the young collections after it, which are seldom in a large heap. So a collection that stops
//! the program is used instead, as for heaps that can be sized.
//!
//! An agent that counts what is allocated collects by itself when the heap comes to its bound, as a rule
//! before a look shows it. One such collection at a time is granted, by the same allowance, and
//! none that would stop a large heap.

use super::collection_budget::Allowance;
use super::grants::Grants;
use super::observation::{Action, SMALL, Seen, tolerance};
use super::watch::Watch;
use plimsoll_unit::Bytes;

/// A collection helped if it gave back more than one part in this many.
const HELPED: u64 = 20;

/// The state of the emptying.
#[derive(Debug, Default)]
pub(super) struct Emptying {
    /// Bytes that the program used when a collection was last asked for, and whether that collection
    /// stops the program; until it is judged.
    asked: Option<(Bytes, bool)>,
    /// The last collection was concurrent and left the program over its limit.
    in_vain: bool,
}

impl Emptying {
    /// Looks at one moment and returns what to do. `concurrent`: a usual collection does not stop the
    /// program.
    pub(super) fn tick(
        &mut self,
        seen: &Seen,
        concurrent: bool,
        watch: &Watch,
        (allowance, grants): (&mut Allowance, &mut Grants),
    ) -> Vec<Action> {
        let used = seen.uses + seen.kept;
        let over = used > seen.limit + tolerance(seen.limit);
        if let Some((before, stopped)) = self.asked.take() {
            let less = seen.uses + before / HELPED < before;
            allowance.judged(less || !over, seen.now);
            self.in_vain = seen.uses > seen.limit && !stopped;
        }
        let stops = !concurrent || watch.live.estimate(seen) <= SMALL || self.in_vain;
        let may = allowance.may(1, watch.limit.changed_lately(seen)) || seen.owed > Bytes::ZERO;
        let must = allowance.must(seen.now) && grants.has_rested(seen.now);
        if !(seen.empties && may && must) {
            return Vec::new();
        }
        if stops {
            grants.grant();
        }
        if !over || seen.heap.collecting {
            return Vec::new();
        }
        self.asked = Some((seen.uses, stops));
        vec![if stops && concurrent {
            Action::CollectWhole
        } else {
            Action::Collect
        }]
    }
}
