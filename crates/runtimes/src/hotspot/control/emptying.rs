//! Heaps of one size into which the agent is loaded. Their size is never changed, but what the agent gives
//! back at the end of a collection is not resident. So a collection is asked for when the program fills the
//! heap beyond its limit: in its share of the time, and where it owes memory, as often as that helps.
//!
//! A concurrent cycle frees what is young, and the program fills as much again while it marks. Old garbage
//! goes only in the young collections after it, which are seldom in a large heap. So a collection that stops
//! the program is used instead, as for heaps that can be sized.
//!
//! An agent that counts what is allocated collects by itself when the heap comes to its bound, as a rule
//! before a look shows it. It is granted some such collections at each look, by the same allowance.

use super::collection_budget::Allowance;
use super::observation::{Action, AtBound, SMALL, Seen, tolerance};
use super::watch::Watch;
use plimsoll_unit::{Bytes, Nanos};

/// A collection helped if it gave back more than one part in this many.
const HELPED: u64 = 20;

/// The least time from a collection of the agent's own to the next collection.
const APART: Nanos = Nanos::millis(150);

/// The state of the emptying.
#[derive(Debug, Default)]
pub(super) struct Emptying {
    /// Collections that the agent may have asked for by itself, all in all; those that it had asked for at
    /// the last look; and the time of all collections of the whole heap then.
    granted: u64,
    asked_for: u64,
    whole: Nanos,
    /// When the last of them was seen.
    collected_at: Nanos,
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
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        let used = seen.uses + seen.kept;
        let over = used > seen.limit + tolerance(seen.limit);
        if let Some((before, stopped)) = self.asked.take() {
            let less = seen.uses + before / HELPED < before;
            allowance.judged(less || !over, seen.now);
            self.in_vain = seen.uses > seen.limit && !stopped;
        }
        self.account(seen, allowance);
        let may = allowance.may(1, watch.limit.changed_lately(seen)) || seen.owed > Bytes::ZERO;
        let must = allowance.must(seen.now);
        let rested = seen.now - self.collected_at >= APART;
        let granted = u64::from(seen.empties && may && must && rested);
        self.granted = seen
            .at_bound
            .unwrap_or_default()
            .asked
            .saturating_add(granted);
        let idle = !seen.heap.collecting && rested && must;
        if !(seen.empties && over && may && idle) {
            return Vec::new();
        }
        let stops = concurrent && (watch.live.estimate(seen) <= SMALL || self.in_vain);
        self.asked = Some((seen.uses, stops || !concurrent));
        vec![if stops {
            Action::CollectWhole
        } else {
            Action::Collect
        }]
    }

    /// Collections that the agent may have asked for by itself, all in all.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Spends and judges the collections that the agent asked for since the last look.
    fn account(&mut self, seen: &Seen, allowance: &mut Allowance) {
        let whole = seen.heap.work[1].time;
        let took = whole - std::mem::replace(&mut self.whole, whole);
        let Some(AtBound { asked, left }) = seen.at_bound else {
            return;
        };
        let more = asked.saturating_sub(std::mem::replace(&mut self.asked_for, asked));
        if more > 0 {
            allowance.spend(took);
            allowance.judged(left + seen.native <= seen.limit, seen.now);
            self.collected_at = seen.now;
        }
    }
}
