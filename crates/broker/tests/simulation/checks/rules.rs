//! Rules about a single tick: budgets, classes, users, victims, grace.

use super::{Checked, Past, Seen, hold, id_of};
use crate::program::{Nature, Program};
use plimsoll_broker::decide::{Action, Figures, Rung};
use plimsoll_unit::{Bytes, MIB, SECOND};
use plimsoll_wire::messages::{Id, Kind, Max, Priority};
use std::collections::{BTreeMap, BTreeSet};

/// How long after its deadline an adapter may collect before anything is taken. The second value
/// holds where the reserve is nearly used up, or a principal waits for its entitlement.
const GRACE: u64 = 3 * SECOND;
const URGENT_GRACE: u64 = SECOND;
/// A report not older than this counts for the core, too, which calls an adapter silent after 4 s.
/// It counts the time from the tick before the report, which may be a second earlier.
const HEARD: u64 = 3 * SECOND;

/// Rules `victims` and `grace`.
pub(super) fn rungs(seen: &Seen, past: &mut BTreeMap<Id, Past>) -> Checked {
    for action in seen.actions {
        let id = id_of(action);
        let Some(one) = seen.core.figures(id) else {
            return hold(false, seen, "victims", &[id], || {
                format!("{action:?} against {id}, who left")
            });
        };
        let numbers = one.numbers;
        let overdue = numbers.owed > 0 && numbers.deadline <= seen.clock;
        let mut takes = false;
        let bound = &mut past.entry(id).or_default().bound;
        let fair = match *action {
            Action::Publish { .. } => true,
            Action::PageOut { bytes, .. } | Action::Take { bytes, .. } => {
                takes = true;
                overdue && bytes.0 <= numbers.owed && one.kind == Kind::Process
            }
            // Sent again when no end was reported.
            Action::Bound {
                bytes: Bytes::MAX, ..
            } => bound.take().is_none() || numbers.owed == 0,
            Action::Bound {
                bytes: Bytes(bytes),
                ..
            } => {
                let raised = bound.is_some_and(|old| bytes >= old);
                *bound = Some(bytes);
                takes = !raised;
                bytes >= numbers.limit && (raised || overdue) && one.kind == Kind::Process
            }
        };
        hold(fair, seen, "victims", &[id], || {
            format!("{action:?} against {one:?} at {}", seen.clock)
        })?;
        hold(!takes || may_take(&one, seen), seen, "grace", &[id], || {
            format!("{action:?} against {one:?} at {}", seen.clock)
        })?;
    }
    for (&id, past) in past.iter() {
        let numbers = seen.core.numbers(id).unwrap_or_default();
        let fair = past.bound.is_none_or(|bound| bound >= numbers.limit);
        hold(fair, seen, "victims", &[id], || {
            format!("bound {:?} below the limit {}", past.bound, numbers.limit)
        })?;
    }
    hold(
        seen.core
            .iter()
            .all(|one| one.kind == Kind::Process || one.rung == Rung::None),
        seen,
        "victims",
        &[],
        || "a group on the ladder".into(),
    )
}

/// Whether an adapter that reports has had its time to collect.
fn may_take(one: &Figures, seen: &Seen) -> bool {
    let mut programs = seen.programs.iter();
    let reported = programs
        .find(|program| program.id == Some(one.id))
        .and_then(|program| program.reported_at);
    let heard = reported.is_some_and(|at| seen.time - at < HEARD);
    let grace = if is_urgent(one, seen) {
        URGENT_GRACE
    } else {
        GRACE
    };
    let deadline = one.numbers.deadline;
    // A deadline from before the clock began is published as 1.
    !heard || deadline == 1 || seen.clock.saturating_sub(deadline) >= grace
}

/// Whether the core calls a domain of the principal urgent.
fn is_urgent(one: &Figures, seen: &Seen) -> bool {
    let urgent = |id: Option<Id>| seen.core.domain(id).is_some_and(|domain| domain.urgent);
    let parent = |id: &Id| seen.core.figures(*id)?.parent;
    urgent(None) || std::iter::successors(one.parent, parent).any(|id| urgent(Some(id)))
}

/// Sums over a principal and its descendants, bytes.
#[derive(Clone, Copy, Default)]
struct Sums {
    limits: u64,
    /// Sum of the greater of limit and use.
    held: u64,
    uses: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.limits += other.limits;
        self.held += other.held;
        self.uses += other.uses;
    }

    /// Rules `budget` and `held`.
    fn within(&self, budget: u64, seen: &Seen, ids: &[Id]) -> Checked {
        let Sums { limits, held, uses } = *self;
        let what = || format!("limits {limits} of {budget}, {held} held, {uses} used");
        hold(limits <= budget, seen, "budget", ids, what)?;
        hold(held <= budget.max(uses), seen, "held", ids, what)
    }
}

/// Rules `budget` and `held`, for the root, each group, each `max`.
pub(super) fn budgets(seen: &Seen, all: &[Figures], figures: &BTreeMap<Id, usize>) -> Checked {
    let mut sums = vec![Sums::default(); all.len() + 1];
    let root = all.len();
    for at in (0..all.len()).rev() {
        let one = &all[at];
        if one.kind == Kind::Process {
            sums[at].add(Sums {
                limits: one.numbers.limit,
                held: one.numbers.limit.max(one.numbers.uses),
                uses: one.numbers.uses,
            });
        }
        let above = one.parent.map_or(root, |id| figures[&id]);
        let below = sums[at];
        sums[above].add(below);
        let budget = seen
            .core
            .domain(Some(one.id))
            .map_or(u64::MAX, |domain| domain.budget)
            .min(one.settings.max.cap().0);
        below.within(budget, seen, &[one.id])?;
        let (limits, told) = (below.limits, one.subtree.limit);
        hold(limits == told, seen, "budget", &[one.id], || {
            format!("limits below it add up to {limits}, it says {told}")
        })?;
    }
    let domain = seen.core.domain(None).unwrap_or_default();
    sums[root].within(domain.budget, seen, &[])?;
    let shared = domain.budget + domain.outsiders + domain.reserve;
    hold(
        shared <= domain.capacity.max(domain.outsiders),
        seen,
        "budget",
        &[],
        || format!("{domain:?}"),
    )
}

/// Rule `called`. A lack counts for three seconds.
pub(super) fn called(seen: &Seen, all: &[Figures], figures: &BTreeMap<Id, usize>) -> Checked {
    let lacks = |one: &Figures| {
        one.wants.lacks > 0 && one.numbers.limit < one.wants.target.min(one.wants.demand)
    };
    let domain = seen.core.domain(None).unwrap_or_default();
    let mut uses = vec![0u64; all.len()];
    let mut root = 0;
    let mut over = false;
    for at in (0..all.len()).rev() {
        let one = &all[at];
        if one.kind == Kind::Process {
            uses[at] += one.numbers.uses;
        }
        let inner = seen.core.domain(Some(one.id));
        let cap = inner.map_or(u64::MAX, |domain| domain.budget);
        over |= uses[at] > cap.min(one.settings.max.cap().0);
        match one.parent.map(|id| figures[&id]) {
            Some(above) => uses[above] += uses[at],
            None => root += uses[at],
        }
    }
    over |= root > domain.budget;
    let debtor = all.iter().find(|one| one.numbers.owed > 0);
    let fair = over || debtor.is_none() || all.iter().any(lacks);
    hold(
        fair,
        seen,
        "called",
        &[debtor.map_or(0, |one| one.id)],
        || format!("{debtor:?} owes, and nobody lacks anything"),
    )
}

/// Rule `users`, where no group and no `max` bounds a user. A user without any process does not
/// count.
pub(super) fn users(seen: &Seen, all: &[Figures]) -> Checked {
    let hollow = |program: &&Program| program.nature == Nature::Hollow;
    let hollow = seen.programs.iter().filter(hollow);
    let hollow: BTreeSet<Id> = hollow.filter_map(|program| program.id).collect();
    let there = all
        .iter()
        .filter(|one| !one.tenant && !hollow.contains(&one.id));
    let there: BTreeSet<Id> = there.filter_map(|one| one.parent).collect();
    let users = || {
        all.iter()
            .filter(|one| one.tenant && there.contains(&one.id))
    };
    let budget = seen.core.domain(None).unwrap_or_default().budget;
    let part = budget / (users().count() as u64).max(1);
    for user in users() {
        let own = || all.iter().filter(|one| one.parent == Some(user.id));
        let bounded = own().any(|one| one.kind == Kind::Group || one.settings.max != Max::NONE);
        if bounded || own().all(|one| one.wants.demand == 0) {
            continue;
        }
        let entitled: u64 = own().map(|one| one.numbers.share).sum();
        // Rounding loses less than a byte for each.
        let slip = 1 + own().count() as u64;
        hold(entitled + slip >= part, seen, "users", &[user.id], || {
            format!("entitled to {entitled} of {budget}, an equal part is {part}")
        })?;
    }
    Ok(())
}

/// Rule `priority`, applied to the targets.
pub(super) fn priorities(seen: &Seen, all: &[Figures], figures: &BTreeMap<Id, usize>) -> Checked {
    let mut wishes = vec![0u64; all.len()];
    let mut gets = vec![0u64; all.len()];
    // For each parent, the highest class that lacks memory, and the principal that lacks it.
    let mut lacking: BTreeMap<Option<Id>, (Priority, Id)> = BTreeMap::new();
    for at in (0..all.len()).rev() {
        let one = &all[at];
        if one.kind == Kind::Process {
            wishes[at] = wishes[at].saturating_add(one.wants.demand);
            gets[at] = gets[at].saturating_add(one.wants.target);
        }
        let budget = seen
            .core
            .domain(Some(one.id))
            .map_or(u64::MAX, |domain| domain.budget);
        wishes[at] = wishes[at].min(one.settings.max.cap().0).min(budget);
        if let Some(above) = one.parent.map(|id| figures[&id]) {
            wishes[above] = wishes[above].saturating_add(wishes[at]);
            gets[above] = gets[above].saturating_add(gets[at]);
        }
        if gets[at].saturating_add(MIB) < wishes[at] {
            let worst = lacking
                .entry(one.parent)
                .or_insert((one.settings.priority, one.id));
            *worst = (*worst).max((one.settings.priority, one.id));
        }
    }
    for (at, one) in all.iter().enumerate() {
        if let Some(&(priority, id)) = lacking.get(&one.parent) {
            let inverted = priority > one.settings.priority && gets[at] > MIB;
            hold(!inverted, seen, "priority", &[id, one.id], || {
                format!(
                    "{} (class {}) should have {} while {id} (class {priority}) lacks",
                    one.id, one.settings.priority, gets[at]
                )
            })?;
        }
    }
    Ok(())
}
