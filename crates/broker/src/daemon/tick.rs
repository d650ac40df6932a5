//! One tick: sense, decide, publish, revoke. Allocates nothing at rest.

use super::Daemon;
use super::publish::Publisher;
use super::users::rules;
use crate::act::{Job, Order};
use crate::core::{Action, SensedPrincipal};
use crate::members::{Member, Members};
use crate::pinning::{Pinning, Settings};
use plimsoll_kernel::clock::now_ns;
use plimsoll_wire::messages::{Id, Kind};
use std::collections::BTreeSet;

/// Shortest time between two ticks, ns, however many events ask for one.
const MIN_TICK_NS: u64 = 2_000_000;
/// Delay of the tick for a user that asks for too many, ns.
const LATER_NS: u64 = 100_000_000;
/// Longest time until memory that was given back is looked at, ns.
const ANSWER_NS: u64 = 25_000_000;
/// Change of the domain's use between two ticks, in bytes, above which every principal is read.
const MOVED: u64 = 8 << 20;
/// Longest time between two writes of a page, ns.
const HEARTBEAT_NS: u64 = 900_000_000;
/// Shortest time between two attempts to start the thread that holds file pages, ns.
const PINNING_NS: u64 = 10_000_000_000;
/// Most principals per tick for which a search for descendants is requested.
const SCANS_PER_TICK: usize = 64;

impl Daemon {
    /// Plans a tick within two milliseconds, so that several events share it.
    pub(super) fn tick_soon(&mut self, now: u64) {
        self.tick_at = self.tick_at.min(now.saturating_add(MIN_TICK_NS));
    }

    /// As [`Daemon::tick_soon`], at a user's request. A user whose work took more than its part of our time
    /// waits a little longer.
    pub(super) fn tick_soon_for(&mut self, uid: u32, now: u64) {
        if !self.may_spend(uid, now) {
            self.tick_at = self.tick_at.min(now.saturating_add(LATER_NS));
        } else if self.tick_at > now.saturating_add(MIN_TICK_NS) {
            if !self.is_ruler(uid) {
                // Only the part of the tick for this user's own principals counts against it.
                let (own, all) = (self.members.owned_by(uid), self.members.len());
                let part = self.tick_took / all.max(1) as u64 * own as u64;
                self.spending.spend(uid, part, now);
            }
            self.tick_soon(now);
        }
    }

    /// Whether more may be done for a user now.
    pub(super) fn may_spend(&self, uid: u32, now: u64) -> bool {
        self.is_ruler(uid) || self.spending.may(uid, now)
    }

    pub(super) fn tick(&mut self, now: u64) {
        let began = now_ns();
        self.members.ask_scans(&self.scanner, now, SCANS_PER_TICK);
        if let Some(sampler) = &mut self.sampler {
            sampler.exchange(&mut self.members, now);
        }
        if let Some(balancer) = &mut self.balancer
            && balancer.exchange(&mut self.members, self.config.balance.shift, now)
        {
            self.state.touch();
        }
        let domain = self.domain.read();
        if domain.capacity != self.configured_for {
            self.configure();
        }
        // Some process moved much memory. If it is a principal, its memory must not be taken for an
        // outsider's.
        let moved = domain.used.abs_diff(self.used_before) > MOVED;
        self.used_before = domain.used;
        self.sense(now, moved);
        if self.options.system {
            self.divide_domains();
        }
        let actions = self.core.tick(now, &domain, &self.sensed);
        let mut encoded = Vec::new();
        let mut given_up: Vec<Job> = Vec::new();
        let mut publisher = Publisher {
            members: &mut self.members,
            clients: &mut self.clients,
            poll: &self.poll,
            now,
        };
        for action in actions {
            publisher.publish(action, &mut encoded);
            let Some((id, order)) = order_of(action).filter(|_| self.config.revoke) else {
                continue;
            };
            if let Some((uid, mut job)) = job_for(publisher.members, id, order) {
                job.swappiness = job.swappiness.filter(|_| self.config.balance.shift);
                given_up.extend(self.worker.order(uid, job));
            }
        }
        for job in given_up {
            self.core.acted(job.id, false);
        }
        self.revise();
        self.pin(now);
        self.beat(now);
        self.pace(now);
        self.tick_took = now_ns().saturating_sub(began);
    }

    /// Starts and ends the thread that holds file pages as the configuration says, and tells it how
    /// memory stands.
    fn pin(&mut self, now: u64) {
        if self.config.pin.enabled != self.pinning.is_some() {
            self.pinning = None;
            if self.config.pin.enabled && now >= self.pinning_at {
                self.pinning_at = now.saturating_add(PINNING_NS);
                self.pinning = self.start_pinning(now);
            }
        }
        let Some(pinning) = &mut self.pinning else {
            return;
        };
        let capacity = self.domain.last().capacity;
        let settings = Settings {
            bytes: self.config.pin.budget.map(|budget| budget.bytes(capacity)),
            window_ns: self.config.pin.window_ns,
        };
        let short = self.core.domain(None).is_some_and(|domain| domain.urgent);
        pinning.exchange(&self.members, settings, short, now);
    }

    fn start_pinning(&mut self, now: u64) -> Option<Pinning> {
        let Some(descriptors) = self.descriptors_of_pinning(now) else {
            tracing::warn!(
                "no file pages are held: that takes descriptors, and users hold nearly all that the \
                 broker may have; raise its limit of open files (`LimitNOFILE=` in its unit)"
            );
            return None;
        };
        Pinning::start(descriptors)
            .inspect_err(|error| tracing::warn!(%error, "no file pages are held"))
            .ok()
    }

    /// Reads the memory of each principal; of idle ones too when `all` is set. If reading a user's
    /// processes took more than that user's part of our time, they keep their last values until
    /// that is over.
    fn sense(&mut self, now: u64, all: bool) {
        self.sensed.clear();
        let mut put_off = None;
        let round = self.members.begin_round();
        for &id in &round {
            let Some(member) = self.members.get_mut(id) else {
                continue;
            };
            let free = rules(self.uid, member.payer);
            let began = if free { 0 } else { now_ns() };
            // A principal of which nothing was read gets no grant.
            let may = free || member.is_absent() || self.spending.may(member.payer, now);
            if !may {
                put_off = put_off.or(Some(id));
            }
            let answers = may && member.released_at.is_some_and(|at| now >= at);
            let (uses, swapped) = match may {
                true => member.read(now, all || answers),
                false => member.last,
            };
            if answers {
                member.released_at = None;
            }
            let domain = member.domain.as_mut().map(|domain| match may {
                true => domain.read(),
                false => domain.last(),
            });
            self.sensed.push(SensedPrincipal {
                id: member.id,
                uses,
                read_at: member.read_at,
                answers,
                swapped,
                working_set: member.working_set,
                bare: !member.home.as_ref().is_some_and(|home| home.complete),
                absent: member.is_absent(),
                domain,
            });
            if !free {
                let ended = now_ns();
                self.spending
                    .spend(member.payer, ended.saturating_sub(began), ended);
            }
        }
        self.members.end_round(round, put_off);
        self.sensed.sort_unstable_by_key(|one| one.id);
    }

    /// Updates waiting orders: the memory may have been given back meanwhile.
    fn revise(&mut self) {
        let core = &self.core;
        let owed = |id| core.figures(id).map_or(0, |figures| figures.numbers.owed);
        let mut over = Vec::new();
        self.worker.revise(owed, |id| over.push(id));
        for id in over {
            self.core.acted(id, false);
        }
    }

    /// Makes the next tick read this principal, even if idle.
    pub(super) fn look_at(&mut self, id: Id) {
        let member = self.members.get_mut(id);
        if let Some(tree) = member.and_then(|member| member.tree.as_mut()) {
            tree.hurry();
        }
    }

    /// As [`Daemon::look_at`]; for a group, all below it, of which it consists.
    pub(super) fn look_into(&mut self, id: Id) {
        let member = self.members.get(id);
        if member.is_some_and(|member| member.kind != Kind::Group) {
            return self.look_at(id);
        }
        let mut below = BTreeSet::from([id]);
        // Parents come before their children.
        for figures in self.core.iter() {
            if figures.parent.is_some_and(|parent| below.contains(&parent)) {
                below.insert(figures.id);
            }
        }
        for id in below {
            self.look_at(id);
        }
    }

    /// Reads only the use of the domains; runs a tick if that shows the need.
    pub(super) fn glance(&mut self, now: u64) {
        let root = self.domain.read().used;
        let mut wanted = self.core.glance(None, root);
        for member in self.members.iter_mut() {
            let free = rules(self.uid, member.payer);
            let may = !wanted && (free || self.spending.may(member.payer, now));
            let Some(domain) = member.domain.as_mut().filter(|_| may) else {
                continue;
            };
            let began = now_ns();
            let used = domain.read().used.saturating_sub(member.beside);
            wanted |= self.core.glance(Some(member.id), used);
            if !free {
                let ended = now_ns();
                self.spending
                    .spend(member.payer, ended.saturating_sub(began), ended);
            }
        }
        match wanted {
            true => self.tick(now),
            false => self.glance_at = now.saturating_add(self.core.pace().glance.max(MIN_TICK_NS)),
        }
    }

    fn pace(&mut self, now: u64) {
        let pace = self.core.pace();
        self.tick_at = now.saturating_add(pace.tick.max(MIN_TICK_NS));
        // A release that came while this tick was due is answered by the next one, unless it is of a user
        // whose principals are not read at present.
        let answered = |member: &Member| {
            let may = || rules(self.uid, member.payer) || self.spending.may(member.payer, now);
            member.released_at.is_some() && may()
        };
        if self.members.iter().any(answered) {
            self.tick_at = self.tick_at.min(now.saturating_add(ANSWER_NS));
        }
        self.glance_at = now.saturating_add(pace.glance.max(MIN_TICK_NS));
    }

    fn beat(&mut self, now: u64) {
        for member in self.members.iter_mut() {
            if let Err(error) = member.page.beat(now, HEARTBEAT_NS) {
                tracing::debug!(principal = member.id, %error, "no heartbeat");
            }
        }
    }

    /// Takes over results of the scanning thread.
    pub(super) fn take_scans(&mut self) {
        let now = now_ns();
        for (id, found) in self.scanner.take() {
            if let Some(uid) = self.members.take_scan(id, found, now) {
                self.tick_soon_for(uid, now);
            }
        }
    }

    /// Takes over results of the worker.
    pub(super) fn take_outcomes(&mut self) {
        let outcomes = self.worker.take_outcomes();
        if outcomes.is_empty() {
            return;
        }
        for outcome in outcomes {
            tracing::debug!(principal = outcome.id, order = ?outcome.order, bytes = outcome.bytes, "done");
            self.rights.tell(&outcome);
            self.core.acted(outcome.id, !outcome.order.takes());
            self.look_at(outcome.id);
        }
        self.tick_soon(now_ns());
    }
}

fn order_of(action: &Action) -> Option<(Id, Order)> {
    match *action {
        Action::Publish { .. } => None,
        Action::PageOut { id, bytes } => Some((id, Order::PageOut(bytes))),
        Action::Take { id, bytes } => Some((id, Order::Take(bytes))),
        Action::Bound { id, bytes } => Some((id, Order::Bound(bytes))),
    }
}

/// The job for an order, with the user of the principal.
fn job_for(members: &Members, id: Id, order: Order) -> Option<(u32, Job)> {
    let member = members.get(id)?;
    let processes = member.tree.iter().flat_map(|tree| tree.processes());
    let job = Job {
        id,
        order,
        processes: processes
            .map(|process| (process.pid(), process.start_time()))
            .collect(),
        cgroup: (member.home.as_ref())
            .filter(|home| home.complete)
            .map(|home| home.directory().to_path_buf()),
        swappiness: member.refaults.and_then(|reading| reading.take_by()),
    };
    Some((member.uid, job))
}
