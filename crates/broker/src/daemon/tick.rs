//! One tick: sense, decide, publish, revoke. Allocates nothing at rest.

use super::Daemon;
use crate::act::Job;
use crate::principals::Member;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Kind};
use std::collections::BTreeSet;

/// Longest time between two writes of a page.
const HEARTBEAT: Nanos = Nanos::millis(900);

impl Daemon {
    /// Plans a tick soon, at a user's request. A user whose work took more than its part of our time
    /// waits a little longer.
    pub(super) fn tick_soon_for(&mut self, uid: u32, now: Nanos) {
        if !self.time.may(uid, now) {
            self.timers.tick_later(now);
        } else if self.timers.is_tick_far(now) {
            // Only the part of the tick for this user's own principals counts against it.
            let (own, all) = (self.members.owned_by(uid), self.members.len());
            let part = self.timers.tick_took() / all.max(1) as u64 * own as u64;
            self.time.spend(uid, part, now);
            self.timers.tick_soon(now);
        }
    }

    pub(super) fn tick(&mut self, now: Nanos) {
        let began = clock::now();
        self.sensing.exchange(&mut self.members, now);
        let shift = self.settings.config.balance.shift;
        if self.acting.exchange(&mut self.members, shift, now) {
            self.state.touch();
        }
        let (domain, is_resized) = self.sensing.read();
        if is_resized {
            self.configure();
        }
        self.sensing
            .sense(&mut self.members, &mut self.time, domain.used, now);
        if self.settings.options.system {
            self.sensing.divide(&mut self.members, &self.core);
        }
        let actions = self.core.tick(now, &domain, self.sensing.sensed());
        let mut encoded = Vec::new();
        let mut given_up: Vec<Job> = Vec::new();
        for action in actions {
            self.serving
                .publish(&mut self.members, action, &mut encoded, now);
            given_up.extend(self.acting.order(&self.members, action, &self.settings));
        }
        for job in given_up {
            self.core.acted(job.id, false);
        }
        for id in self.acting.revise(&self.core) {
            self.core.acted(id, false);
        }
        self.pin(now);
        self.beat(now);
        self.plan_next(began, now);
    }

    /// Tells the thread that holds file pages how memory stands.
    fn pin(&mut self, now: Nanos) {
        let capacity = self.sensing.domain().last().capacity;
        let short = self.core.domain(None).is_some_and(|domain| domain.urgent);
        let (serving, uid) = (&mut self.serving, self.settings.uid);
        // Users get these descriptors no more; there are none where they have them.
        let descriptors = || {
            let user = serving.user(uid, now);
            user.descriptors().take(plimsoll_pin::descriptors::most())
        };
        let memory = (capacity, short);
        self.acting
            .pin(&self.settings, &self.members, memory, descriptors, now);
    }

    /// Makes the next tick read this principal, even if idle.
    pub(super) fn look_at(&mut self, id: Id) {
        let member = self.members.get_mut(id);
        if let Some(tree) = member.and_then(|member| member.memory.tree.as_mut()) {
            tree.hurry();
        }
    }

    /// As [`Daemon::look_at`]; for a group, all principals below it.
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
    pub(super) fn glance(&mut self, now: Nanos) {
        let (members, core, time) = (&mut self.members, &self.core, &mut self.time);
        if self.sensing.glance(members, core, time, now) {
            self.tick(now);
        } else {
            self.timers.glanced(now, &self.core.pace());
        }
    }

    fn plan_next(&mut self, began: Nanos, now: Nanos) {
        // A release that came while this tick was due is answered by the next one, unless it is of a user
        // whose principals are not read at present.
        let answered =
            |member: &Member| member.memory.is_released() && self.time.may(member.owner.payer, now);
        let answers = self.members.iter().any(answered);
        let took = clock::now() - began;
        self.timers.ticked(now, took, &self.core.pace(), answers);
    }

    fn beat(&mut self, now: Nanos) {
        for member in self.members.iter_mut() {
            if let Err(error) = member.outlet.page.beat(now, HEARTBEAT) {
                tracing::debug!(principal = member.id, %error, "no heartbeat");
            }
        }
    }

    /// Takes over results of the scanning thread.
    pub(super) fn take_scans(&mut self) {
        let now = clock::now();
        for (id, found) in self.sensing.take_scans() {
            if let Some(uid) = self.members.take_scan(id, found, now) {
                self.tick_soon_for(uid, now);
            }
        }
    }

    /// Takes over results of the worker.
    pub(super) fn take_outcomes(&mut self) {
        let outcomes = self.acting.take_outcomes();
        if outcomes.is_empty() {
            return;
        }
        for outcome in outcomes {
            self.core.acted(outcome.id, !outcome.order.takes());
            self.look_at(outcome.id);
        }
        self.timers.tick_soon(clock::now());
    }
}
