//! The steps when a program is over its limit.

use super::state::{Held, State, Way};
use super::{Ratios, Step};
use crate::hotspot::control::aim::{Aim, size};
use crate::hotspot::control::observation::{Action, RETURNING, Seen, slack};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// The pause between two downward steps of the bias.
const CALM: Nanos = Nanos::millis(300);

impl Ratios {
    /// The program is over its limit. Makes the heap smaller. If the heap is not to blame, trims
    /// native memory and lowers the bias.
    pub(super) fn lower(
        &mut self,
        held: Held,
        (aim, whole): (Aim, bool),
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> Step {
        let stay = |actions| (State::Held(held), actions);
        let now = size(seen, levers);
        let resized_for = seen.now - held.since;
        let returns = levers.sized_by == SizedBy::HeapRatios && held.since > Nanos::ZERO;
        if !smaller(aim, now, seen) && returns && resized_for < RETURNING {
            return stay(Vec::new());
        }
        let room = watch.heap_size.at(seen);
        if !refuses(&held, seen, watch) && self.old.tightens(room, seen, levers, watch) {
            let way = Way {
                // An agent gives all garbage back, at whatever size.
                tight: !seen.frees_garbage(),
                urgent: true,
                ..Way::default()
            };
            return self.resize(held, aim, way, seen, levers);
        }
        let way = Way {
            urgent: true,
            whole,
            ..Way::default()
        };
        if self.helps(&held, aim, seen, levers, watch) || levers.sized_by == SizedBy::OldOnly {
            return self.resize(held, aim, way, seen, levers);
        }
        let calm = seen.now - self.excess.lowered_at.max(held.since) > CALM;
        if !calm {
            return stay(Vec::new());
        }
        self.excess.lowered_at = seen.now;
        let mut actions = vec![Action::Measure];
        if seen.now - self.excess.trimmed_at > Nanos::seconds(10) {
            self.excess.trimmed_at = seen.now;
            actions.insert(0, Action::TrimNative);
        }
        if aim.least {
            // At its least size the heap does not follow the bias, so the excess tells nothing
            // about larger sizes.
            return stay(actions);
        }
        let excess = i64::try_from((seen.uses - seen.limit).0).unwrap_or(i64::MAX);
        let least = -i64::try_from(room.0 / 3).unwrap_or(0);
        self.learned.bias = self.learned.bias.saturating_sub(excess).max(least);
        stay(actions)
    }

    /// Whether a resizing to `aim` makes the heap smaller, and was not tried in vain.
    pub(super) fn helps(
        &self,
        held: &Held,
        aim: Aim,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
    ) -> bool {
        let new = !self.futile.was_tried(aim.percent) && !refuses(held, seen, watch);
        new && smaller(aim, size(seen, levers), seen)
    }
}

/// Whether the machine does not become smaller. An agent gives memory back at the end of a collection,
/// whatever the size.
fn refuses(held: &Held, seen: &Seen, watch: &Watch) -> bool {
    held.refuses(seen, watch) && !seen.empties
}

/// Whether a collection would shrink the heap by more than the normal scatter of sizes.
fn smaller(aim: Aim, now: Bytes, seen: &Seen) -> bool {
    aim.reachable + slack(seen.limit) / 2 < now
}
