//! The revoke phase: which bytes are needed where, and from which principals they are taken.

use super::debt::tolerance;
use super::ladder::{Standing, Step};
use super::pace::Mood;
use super::settle::Moment;
use super::{Action, Core, MAX_DEPTH};
use plimsoll_policy::shares::Principal;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Kind;

/// How long a principal waits for its entitlement before memory is taken for it; the debtors'
/// deadlines add to this.
const PATIENCE: Nanos = Nanos::millis(500);
/// The same when only a small part is missing, or it has not used what it may use. Paging out costs the
/// debtor more than that is worth, and it often becomes free by itself.
const LONG_PATIENCE: Nanos = Nanos::seconds(10);

/// Most victims that Algorithm 1 names in one tick; the next tick comes soon while debts exist.
const VICTIMS: usize = 4;

impl Core {
    /// Runs the ladder for principals that owe needed bytes. Victims of Algorithm 1 come first,
    /// because bytes taken from them lower what is needed from the others.
    pub(super) fn revoke(&mut self, moment: &Moment) {
        self.add_up_needs(moment);
        let inactive = self.add_up_inactive(moment);
        self.revoke_from_victims(moment, inactive);
        for place in 0..self.tree.len() {
            self.step(self.tree.ordered(place), moment, inactive);
        }
    }

    /// Applies Algorithm 1 to the overdue principals. The round over all principals then skips
    /// those treated here, because their ladders wait for the end of the action.
    fn revoke_from_victims(&mut self, moment: &Moment, inactive: u64) {
        let mut overdue = 0;
        for place in 0..self.tree.len() {
            let slot = self.tree.ordered(place);
            if self.is_late(slot, moment) && self.need_around(slot) > 0 {
                overdue += 1;
            } else {
                spare(&mut self.inputs[place]);
            }
        }
        for _ in 0..VICTIMS.min(overdue) {
            let Some(victim) = self.shares.victim(&self.inputs) else {
                return;
            };
            self.step(self.tree.ordered(victim.principal), moment, inactive);
            spare(&mut self.inputs[victim.principal]);
        }
    }

    /// Whether a process owes bytes that may be taken by force.
    fn is_late(&self, slot: u32, moment: &Moment) -> bool {
        let node = self.tree.at(slot);
        let grace = node.grace(self.urgent_around(slot), moment.now);
        let then = moment.now - grace;
        let owes = node
            .debt
            .is_some_and(|debt| debt.overdue(node.sensed.uses, then) > 0);
        owes && node.origin.kind == Kind::Process
    }

    /// Inactive bytes that its ladder is about to take from a principal.
    fn inactive(&self, slot: u32, moment: &Moment) -> u64 {
        let node = self.tree.at(slot);
        let active = node.sensed.working_set.unwrap_or(node.sensed.uses);
        node.ladder.yields(&self.standing(slot, moment, active))
    }

    /// How a principal stands. The `spared` bytes are not taken from it.
    fn standing(&self, slot: u32, moment: &Moment, spared: u64) -> Standing {
        let node = self.tree.at(slot);
        let urgent = self.urgent_around(slot);
        Standing {
            debt: node.debt.filter(|_| node.origin.kind == Kind::Process),
            uses: node.sensed.uses,
            limit: node.limits.limit,
            need: self.need_around(slot),
            spared,
            urgent,
            bare: node.sensed.bare,
            grace: node.grace(urgent, moment.now),
            now: moment.now,
        }
    }

    /// Sums up the inactive bytes of the children of each principal; returns those at the top.
    fn add_up_inactive(&mut self, moment: &Moment) -> u64 {
        let mut top = 0u64;
        for place in 0..self.tree.len() {
            let slot = self.tree.ordered(place);
            let inactive = self.inactive(slot, moment);
            let all = match self.tree.at(slot).position.parent {
                None => &mut top,
                Some(above) => &mut self.tree.at_mut(above).account.inactive,
            };
            *all = all.saturating_add(inactive);
        }
        top
    }

    /// The use below which nothing is taken from a principal; `top` are the inactive bytes at the top.
    fn spared(&self, slot: u32, moment: &Moment, top: u64) -> u64 {
        let node = self.tree.at(slot);
        let above = node.position.parent.map(|above| self.tree.at(above));
        let all = above.map_or(top, |above| above.account.inactive);
        if all > self.inactive(slot, moment) {
            node.sensed.working_set.unwrap_or(0)
        } else {
            0
        }
    }

    /// The next step of one principal's ladder, if one is due.
    fn step(&mut self, slot: u32, moment: &Moment, inactive: u64) {
        let spared = self.spared(slot, moment, inactive);
        let standing = self.standing(slot, moment, spared);
        let node = self.tree.at_mut(slot);
        if node.origin.kind == Kind::Group {
            return;
        }
        if standing.need > 0 && standing.debt.is_some() {
            self.pacer.record(Mood::Urgent);
        }
        let id = node.id;
        let Some(step) = node.ladder.step(&standing) else {
            return;
        };
        let (Step::PageOut(bytes) | Step::Take(bytes) | Step::Bound(bytes)) = step;
        let bytes = Bytes(bytes);
        self.actions.push(match step {
            Step::PageOut(_) => Action::PageOut { id, bytes },
            Step::Take(_) => Action::Take { id, bytes },
            Step::Bound(_) => Action::Bound { id, bytes },
        });
        if !matches!(step, Step::Bound(_)) {
            self.lessen_needs(slot, bytes);
        }
    }

    /// Computes what each domain lacks: for its reserve, or for principals that waited too long.
    fn add_up_needs(&mut self, moment: &Moment) {
        let mut waiting = 0u64;
        for place in (0..self.tree.len()).rev() {
            let slot = self.tree.ordered(place);
            let node = self.tree.at_mut(slot);
            node.account.subtree_need = node
                .account
                .subtree_need
                .saturating_add(node.overdue_gap(moment.now));
            let need = node.account.subtree_need;
            if let Some(domain) = &mut node.sensed.domain {
                domain.assess(Bytes(need), moment.now);
            }
            let above = match node.position.parent {
                None => &mut waiting,
                Some(above) => &mut self.tree.at_mut(above).account.subtree_need,
            };
            *above = above.saturating_add(need);
        }
        self.root.assess(Bytes(waiting), moment.now);
    }

    /// The greatest need among the domains of a principal, bytes.
    fn need_around(&self, slot: u32) -> u64 {
        let above = self
            .tree
            .ancestors(slot)
            .filter_map(|above| self.tree.at(above).sensed.domain.as_ref());
        above
            .map(|domain| domain.need)
            .fold(self.root.need, Bytes::max)
            .0
    }

    fn urgent_around(&self, slot: u32) -> bool {
        let mut above = self.tree.ancestors(slot);
        self.root.urgent()
            || above.any(|above| {
                let domain = self.tree.at(above).sensed.domain.as_ref();
                domain.is_some_and(super::domain::Domain::urgent)
            })
    }

    fn lessen_needs(&mut self, slot: u32, bytes: Bytes) {
        self.root.deduct(bytes);
        let mut next = self.tree.at(slot).position.parent;
        for _ in 0..MAX_DEPTH {
            let Some(above) = next else { return };
            let node = self.tree.at_mut(above);
            if let Some(domain) = &mut node.sensed.domain {
                domain.deduct(bytes);
            }
            next = node.position.parent;
        }
    }
}

/// Marks a principal as having nothing to take, for Algorithm 1.
fn spare(principal: &mut Principal) {
    (principal.uses, principal.working_set) = (0, 0);
}

impl super::node::Node {
    /// Bytes that it lacks of its entitlement, once it has waited long enough.
    fn overdue_gap(&self, now: Nanos) -> u64 {
        let gap = self.gap();
        let patience = if self.is_full() && gap > 2 * tolerance(self.limits.limit) {
            PATIENCE
        } else {
            LONG_PATIENCE
        };
        let patient = self.needs.waits.is_none_or(|since| now - since < patience);
        if patient { 0 } else { gap }
    }
}
