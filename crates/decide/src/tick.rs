//! One tick: sense, account, decide, settle, revoke. Each phase is one pass, and none allocates.

use super::domain::{Bounds, Members};
use super::node::{Account, TREND_TAU};
use super::pace::Mood;
use super::settle::{Moment, Publication};
use super::{
    Action, Core, Rung, SensedDomain, SensedPrincipal, commands, debt, demand, settle,
    smoothed_level,
};
use plimsoll_policy::shares::{Collector, Principal};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};
use plimsoll_wire::messages::Kind;
use plimsoll_wire::page::{Level, Numbers};

/// Least fall of a principal's use between two ticks, in bytes, that counts as giving memory back.
const FREED: u64 = 4 << 20;
/// A principal is near its limit within this distance, a sixteenth of the capacity at most.
const REACH: Bytes = Bytes::mib(64);

impl Core {
    /// Runs one tick. `now` is the clock of the pages. Principals missing in `sensed` keep their
    /// last values; unknown ids in it are ignored. Carry the actions out in their order: falling
    /// limits are published before rising ones.
    pub fn tick(
        &mut self,
        now: Nanos,
        domain: &SensedDomain,
        sensed: &[SensedPrincipal],
    ) -> &[Action] {
        let passed = self.clock.advance(now);
        let mut moment = Moment {
            clock: now,
            now: self.clock.now,
            next: Nanos::ZERO,
            jumped: self.clock.jumped,
        };
        self.tree.arrange();
        self.actions.clear();
        self.pacer.reset(moment.now);
        let freeing = self.sense(domain, sensed, passed);
        self.account(freeing, passed);
        self.estimate_demand();
        self.decide();
        self.settle(&moment);
        self.revoke(&moment);
        moment.next = self.next_tick();
        self.publish(&moment);
        &self.actions
    }

    /// Stores the sensed values; returns whether a principal is giving memory back now.
    fn sense(&mut self, domain: &SensedDomain, sensed: &[SensedPrincipal], passed: Nanos) -> bool {
        self.root.sensed = *domain;
        let mut freeing = false;
        for one in sensed {
            let Some(slot) = self.tree.slot(one.id) else {
                continue;
            };
            let node = self.tree.at_mut(slot);
            let uses = if node.origin.kind == Kind::Group {
                0
            } else {
                one.uses.0
            };
            let files = one.files.0.min(uses);
            let joins = !node.sensed.seen;
            node.sensed.seen = true;
            freeing |= node.sensed.uses > uses.saturating_add(FREED);
            let began = smoothed_level::signed(files) - smoothed_level::signed(node.sensed.files);
            node.sensed.flow.shift(began);
            node.sensed.files = files;
            node.sensed.uses = uses;
            node.sensed.read_at = one.read_at;
            node.sensed.answers |= one.answers;
            node.sensed.swapped = one.swapped.0;
            node.sensed.wanted = one.wanted;
            node.sensed.working_set = one.working_set.map(|touched| touched.0);
            node.sensed.bare = one.bare;
            node.sensed.absent = one.absent;
            node.sensed.domain = one
                .domain
                .map(|sensed| node.sensed.domain.unwrap_or_default().with(sensed));
            node.sensed.flow.feed(uses, passed, TREND_TAU);
            let ours = node.ladder.rung >= Rung::Take;
            node.trust
                .record(node.adapter.reported.stalls, ours, self.clock.now, passed);
            if joins {
                commands::shift_domains(
                    &mut self.tree,
                    &mut self.root,
                    slot,
                    -commands::own(uses, files),
                );
            }
        }
        freeing
    }

    /// Sums up, and computes each domain's budget and so the bound of each subtree.
    fn account(&mut self, freeing: bool, passed: Nanos) {
        let reaction = self.slowest();
        let mut members = Members {
            freeing,
            ..Members::default()
        };
        self.clear_accounts();
        for place in (0..self.tree.len()).rev() {
            let slot = self.tree.ordered(place);
            let node = self.tree.at_mut(slot);
            node.account.subtree_uses = node.account.subtree_uses.saturating_add(node.sensed.uses);
            node.account.subtree_files =
                (node.account.subtree_files).saturating_add(node.sensed.files);
            node.account.subtree_adaptive += u32::from(node.adaptive && node.sensed.uses > 0);
            let below = Members {
                uses: Bytes(node.account.subtree_uses),
                files: Bytes(node.account.subtree_files),
                adaptive: node.account.subtree_adaptive,
                freeing,
            };
            let mut bound = node.settings.max.cap();
            if let Some(domain) = &mut node.sensed.domain {
                domain.account(below, passed, reaction, Bounds::NONE);
                bound = bound.min(domain.budget);
                self.pacer.record_domain(domain);
            }
            node.account.bound = bound.0;
            match node.position.parent {
                None => members.add(&below),
                Some(above) => {
                    let above = &mut self.tree.at_mut(above).account;
                    above.subtree_uses = above.subtree_uses.saturating_add(below.uses.0);
                    above.subtree_files = above.subtree_files.saturating_add(below.files.0);
                    above.subtree_adaptive += below.adaptive;
                }
            }
        }
        let bounds = Bounds {
            max_budget: self.config.max_budget,
            min_reserve: self.config.min_reserve,
        };
        self.root.account(members, passed, reaction, bounds);
        self.pacer.record_domain(&self.root);
    }

    fn clear_accounts(&mut self) {
        for place in 0..self.tree.len() {
            let slot = self.tree.ordered(place);
            self.tree.at_mut(slot).account = Account::default();
        }
    }

    /// The slowest reaction time that counts: of programs with adapters that hold a substantial
    /// part. With several users, a report about one user's programs cannot raise the reserve above
    /// its usual size.
    fn slowest(&self) -> Nanos {
        if self.tree.nodes().filter(|node| node.origin.tenant).count() > 1 {
            return super::node::REACTION;
        }
        let worthwhile = (self.root.sensed.capacity / 64).0;
        let slowest = self
            .tree
            .nodes()
            .filter(|node| node.adaptive && node.sensed.uses >= worthwhile);
        slowest
            .map(|node| node.reaction())
            .max()
            .unwrap_or(super::node::REACTION)
    }

    /// Computes the demands, and whether all fit without anybody giving memory up.
    fn estimate_demand(&mut self) {
        let (mut total, now, lending) = (0u64, self.clock.now, self.config.lending);
        for place in (0..self.tree.len()).rev() {
            let slot = self.tree.ordered(place);
            let node = self.tree.at_mut(slot);
            if lending {
                demand::steady_collector(node, now);
            } else {
                node.adapter.collector = Collector::default();
            }
            node.needs.demand = demand::steadied(node.needs.demand, demand::wanted(node, now));
            if node.trust.is_doubted(now) {
                node.needs.demand = node
                    .needs
                    .demand
                    .min(node.limits.limit.max(node.sensed.uses));
            }
            node.needs.modest = demand::calmed(node.needs.modest, demand::modest(node, now));
            let kept = if node.adaptive { node.sensed.uses } else { 0 };
            let below = node.account.subtree_demand;
            let all = below.saturating_add(node.needs.demand.max(kept));
            node.account.roomy = all <= node.account.bound;
            node.account.subtree_demand = all.min(node.account.bound);
            let all = node.account.subtree_demand;
            match node.position.parent {
                None => total = total.saturating_add(all),
                Some(above) => {
                    let above = &mut self.tree.at_mut(above).account.subtree_demand;
                    *above = above.saturating_add(all);
                }
            }
        }
        self.keep_in_room(Bytes(total) <= self.root.budget);
    }

    /// Where all demands fit, an idle program keeps what it has.
    fn keep_in_room(&mut self, roomy: bool) {
        for place in 0..self.tree.len() {
            let slot = self.tree.ordered(place);
            let above = self
                .tree
                .at(slot)
                .position
                .parent
                .map_or(roomy, |above| self.tree.at(above).account.roomy);
            let node = self.tree.at_mut(slot);
            node.account.roomy &= above;
            if node.account.roomy && node.adaptive {
                node.needs.demand = node.needs.demand.max(node.sensed.uses);
            }
        }
    }

    fn decide(&mut self) {
        self.inputs.clear();
        let reach = REACH.min(self.root.sensed.capacity / 16).0;
        let now = self.clock.now;
        let to_ms = |span: Nanos| u32::try_from(span.0 / MILLISECOND).unwrap_or(u32::MAX);
        for place in 0..self.tree.len() {
            let node = self.tree.at(self.tree.ordered(place));
            let parent = node
                .position
                .parent
                .map(|above| self.tree.at(above).position.place);
            self.inputs.push(Principal {
                parent,
                weight: node.settings.weight.get(),
                priority: node.settings.priority.get(),
                own_weight: node.settings.own_weight.get(),
                own_priority: node.settings.own_priority.get(),
                uses: node.sensed.uses,
                working_set: node.sensed.working_set.unwrap_or(0).min(node.sensed.uses),
                trend: node.trend(demand::HORIZON),
                demand: node.needs.demand,
                modest: node.needs.modest,
                max: node.account.bound,
                last_limit: node.limits.limit,
                last_target: node.limits.share.target,
                reach: node.reach(reach, self.clock.now),
                claims: node.claims(),
                slight: debt::slop(node.limits.limit),
                least: node.least(),
                waits: node.needs.waits.is_some(),
                collector: node.adapter.collector,
                lasts_ms: to_ms(node.adapter.rhythm.lasts(now)),
                resizing_ms: to_ms(node.adapter.reported.reaction.unwrap_or_default()),
                apart: node.origin.tenant,
            });
        }
        let shares = self.shares.decide(&self.inputs, self.root.budget);
        debug_assert_eq!(shares.len(), self.tree.len(), "a share for each");
        for (place, share) in shares.iter().enumerate() {
            let slot = self.tree.ordered(place);
            self.tree.at_mut(slot).limits.share = *share;
        }
    }

    fn settle(&mut self, moment: &Moment) {
        for place in 0..self.tree.len() {
            let slot = self.tree.ordered(place);
            let node = self.tree.at_mut(slot);
            let before = node.limits.limit;
            settle::settle(node, moment.now);
            let grows = node.sensed.flow.rate(TREND_TAU).unsigned_abs()
                > (node.sensed.uses / 64).max(4 << 20);
            // An overdue debt that nobody needs is looked at again when somebody does.
            let pays = node.debt.is_some_and(|debt| debt.deadline > moment.now);
            if grows || before != node.limits.limit || pays || node.needs.waits.is_some() {
                self.pacer.record(Mood::Moving);
            }
        }
    }

    /// Publishes falling limits first, so that the pages never promise more than the budget.
    fn publish(&mut self, moment: &Moment) {
        self.number(moment);
        for falls in [true, false] {
            for place in 0..self.tree.len() {
                let slot = self.tree.ordered(place);
                let node = self.tree.at_mut(slot);
                let numbers = node.told();
                if (numbers.limit < node.limits.published.numbers.limit) != falls {
                    continue;
                }
                let word = if std::mem::take(&mut node.sensed.answers) {
                    Publication::Wake
                } else {
                    settle::publication(&node.limits.published, &numbers, moment)
                };
                let wake = match word {
                    Publication::None => continue,
                    Publication::Write => false,
                    Publication::Wake => true,
                };
                node.limits.published.numbers = numbers;
                node.limits.published.at = Some(moment.now);
                if wake {
                    node.limits.published.woken = numbers;
                }
                self.actions.push(Action::Publish {
                    id: node.id,
                    numbers,
                    wake,
                });
            }
        }
    }

    /// Computes all numbers: a process has its own, a group those of all its descendants.
    fn number(&mut self, moment: &Moment) {
        for place in (0..self.tree.len()).rev() {
            let slot = self.tree.ordered(place);
            let node = self.tree.at_mut(slot);
            let below = std::mem::take(&mut node.limits.below);
            let own = node.own_numbers(moment);
            let all = add(&own, &below);
            node.limits.subtree_limit = all.limit;
            node.limits.numbers = match node.origin.kind {
                Kind::Process => own,
                Kind::Group => Numbers {
                    available: node
                        .limits
                        .share
                        .subtree_available
                        .max(all.available)
                        .max(all.limit),
                    ..all
                },
            };
            if let Some(above) = node.position.parent {
                let above = &mut self.tree.at_mut(above).limits.below;
                *above = add(above, &all);
            }
        }
    }
}

/// Adds two principals' numbers; keeps the nearer deadline, the more urgent level and the earlier
/// reading.
fn add(one: &Numbers, other: &Numbers) -> Numbers {
    let deadline = match (one.deadline, other.deadline) {
        (0, any) | (any, 0) => any,
        (one, other) => one.min(other),
    };
    let sensed = match (one.sensed, other.sensed) {
        (0, any) | (any, 0) => any,
        (one, other) => one.min(other),
    };
    Numbers {
        limit: one.limit.saturating_add(other.limit),
        available: one.available.max(other.available),
        owed: one.owed.saturating_add(other.owed),
        deadline,
        uses: one.uses.saturating_add(other.uses),
        share: one.share.saturating_add(other.share),
        level: Level::max(one.level, other.level),
        sensed,
    }
}
