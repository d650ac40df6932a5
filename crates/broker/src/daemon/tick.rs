//! One pass: sense, decide, publish, revoke. Allocates nothing at rest.

use super::Daemon;
use super::publish::Publisher;
use crate::act::{Job, Order};
use crate::core::{Action, SensedPrincipal};
use crate::members::Members;
use plimsoll_kernel::clock::now_ns;
use plimsoll_wire::messages::Id;

/// Two ticks are at least so far apart, ns, however many events ask for one.
const MIN_TICK_NS: u64 = 2_000_000;
/// When the domain's use moved by more than this (bytes) between two ticks, every principal is read.
const MOVED: u64 = 8 << 20;
/// A page is written at least this often, ns.
const HEARTBEAT_NS: u64 = 900_000_000;
/// Principals whose descendants are looked for per tick.
const RESCANS_PER_TICK: usize = 16;

impl Daemon {
    /// A tick within two milliseconds: several events share it.
    pub(super) fn tick_soon(&mut self, now: u64) {
        self.tick_at = self.tick_at.min(now.saturating_add(MIN_TICK_NS));
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.members.rescan(now, RESCANS_PER_TICK);
        if let Some(sampler) = &self.sampler {
            sampler.exchange(&mut self.members, now);
        }
        let domain = self.domain.read();
        if domain.capacity != self.configured_for {
            self.configure();
        }
        // Somebody moved: whoever it was must not be taken for an outsider.
        let moved = domain.used.abs_diff(self.used_before) > MOVED;
        self.used_before = domain.used;
        sense(&mut self.members, &mut self.sensed, now, moved);
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
            if let Some(job) = job_for(publisher.members, id, order) {
                given_up.extend(self.worker.order(job));
            }
        }
        for job in given_up {
            self.core.acted(job.id, false);
        }
        self.revise();
        self.beat(now);
        self.pace(now);
    }

    /// What waits to be taken may have been given back meanwhile.
    fn revise(&mut self) {
        let core = &self.core;
        let owed = |id| core.figures(id).map_or(0, |figures| figures.numbers.owed);
        let mut over = Vec::new();
        self.worker.revise(owed, |id| over.push(id));
        for id in over {
            self.core.acted(id, false);
        }
    }

    /// The next tick reads this principal, idle or not.
    pub(super) fn look_at(&mut self, id: Id) {
        if let Some(tree) = self
            .members
            .get_mut(id)
            .and_then(|member| member.tree.as_mut())
        {
            tree.hurry();
        }
    }

    /// A cheap look at the usage of the domains; a tick when it shows that one is needed.
    pub(super) fn glance(&mut self, now: u64) {
        let root = self.domain.read().used;
        let mut wanted = self.core.glance(None, root);
        for member in self.members.iter_mut() {
            if let Some(domain) = member.domain.as_mut().filter(|_| !wanted) {
                wanted |= self.core.glance(Some(member.id), domain.read().used);
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
        self.glance_at = now.saturating_add(pace.glance.max(MIN_TICK_NS));
    }

    fn beat(&mut self, now: u64) {
        for member in self.members.iter_mut() {
            if let Err(error) = member.page.beat(now, HEARTBEAT_NS) {
                tracing::debug!(principal = member.id, %error, "no heartbeat");
            }
        }
    }

    /// What the worker did.
    pub(super) fn take_outcomes(&mut self) {
        for outcome in self.worker.take_outcomes() {
            tracing::debug!(principal = outcome.id, order = ?outcome.order, bytes = outcome.bytes, "done");
            self.rights.tell(&outcome);
            self.core.acted(outcome.id, !outcome.order.takes());
            self.look_at(outcome.id);
        }
        self.tick_soon(now_ns());
    }
}

fn sense(members: &mut Members, sensed: &mut Vec<SensedPrincipal>, now: u64, all: bool) {
    sensed.clear();
    for member in members.iter_mut() {
        let (uses, swapped) = member.read(now, all);
        let domain = member.domain.as_mut().map(|domain| domain.read());
        sensed.push(SensedPrincipal {
            id: member.id,
            uses,
            swapped,
            working_set: member.working_set,
            bare: !member.home.as_ref().is_some_and(|home| home.complete),
            domain,
        });
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

fn job_for(members: &Members, id: Id, order: Order) -> Option<Job> {
    let member = members.get(id)?;
    let processes = member.tree.iter().flat_map(|tree| tree.processes());
    Some(Job {
        id,
        order,
        processes: processes
            .map(|process| (process.pid(), process.start_time()))
            .collect(),
        cgroup: (member.home.as_ref())
            .filter(|home| home.complete)
            .map(|home| home.directory().to_path_buf()),
    })
}
