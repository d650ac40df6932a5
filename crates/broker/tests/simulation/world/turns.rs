//! Events of the scenario, and programs that join, change their demand and leave.

use super::{Post, World};
use crate::program::Nature;
use crate::scenario::Event;
use plimsoll_broker::decide::{Config, Core, NewPrincipal};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos, SECOND};
use plimsoll_wire::messages::{Kind, Max, Priority, Set, Weight};

impl World {
    pub(super) fn happen(&mut self) {
        while let Some(&(at, event)) = self.scenario.events.get(self.next_event) {
            if at > self.clock.time {
                break;
            }
            self.next_event += 1;
            self.checker.disturbed(self.clock.time);
            self.apply(event);
        }
        if self
            .gone_until
            .is_some_and(|until| self.clock.time >= until)
        {
            self.gone_until = None;
            self.register_groups();
        }
        for at in 0..self.programs.len() {
            self.turn(at);
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Capacity(percent) => {
                self.kernel.capacity = self.scenario.capacity / 100 * percent;
            }
            Event::GroupCapacity(group, percent) => {
                let first = self.scenario.groups[group].capacity;
                self.kernel.cgroups[group].capacity = first.map(|bytes| bytes / 100 * percent);
            }
            Event::Restart => self.restart(),
            Event::Jump(by) => {
                self.clock.jump(by);
            }
            Event::Weigh(program, weight) => {
                self.programs[program].place.weight = weight;
                self.set(program, |set| set.weight = Weight::new(weight).ok());
            }
            Event::Prioritise(program, priority) => {
                self.programs[program].place.priority = priority;
                self.set(program, |set| set.priority = Priority::new(priority).ok());
            }
            Event::Move(program, group) => {
                self.programs[program].place.group = Some(group);
                let parent = self.groups.plain[group];
                self.set(program, |set| set.parent = parent);
            }
        }
    }

    pub(super) fn set(&mut self, program: usize, change: impl FnOnce(&mut Set)) {
        let Some(id) = self.programs[program].id else {
            return;
        };
        let mut set = Set {
            id,
            ..Set::default()
        };
        change(&mut set);
        self.core.set(&set).expect("a valid change is taken");
    }

    /// `kill -9`: the core loses all of its state; programs live on and rejoin one by one.
    pub(super) fn restart(&mut self) {
        let first_id = self.core.next_id();
        self.core = Core::new(Config {
            first_id,
            ..Config::default()
        });
        self.gone_until = Some(self.clock.time + self.random.between(100, 2_000) * MILLISECOND);

        self.groups.forget();
        self.post = Post::default();
        for program in &mut self.programs {
            if program.id.take().is_some() {
                program.turn_at = self.clock.time + self.random.between(0, 3_000) * MILLISECOND;
            }
            program.memory.bound = u64::MAX;
        }
        self.checker.forget();
    }

    pub(super) fn register_groups(&mut self) {
        for user in 0..self.scenario.users {
            let new = NewPrincipal {
                name: format!("user-{user}"),
                kind: Kind::Group,
                parent: None,
                weight: Weight::default(),
                priority: Priority::default(),
                max: Max::NONE,
                adaptive: false,
                tenant: true,
                automatic: true,
            };
            let id = self.core.register(&new, Nanos(self.clock.shown()));
            self.groups.tenants[user] = Some(id.expect("the group of a user is taken"));
        }
        for at in 0..self.scenario.groups.len() {
            let plan = &self.scenario.groups[at];
            let new = NewPrincipal {
                name: format!("group-{at}"),
                kind: Kind::Group,
                parent: match plan.parent {
                    Some(above) => self.groups.plain[above],
                    None => self.groups.top_of(plan.user),
                },
                weight: Weight::new(plan.weight).expect("a valid weight"),
                priority: Priority::new(plan.priority).expect("a valid priority"),
                max: max(plan.max),
                adaptive: false,
                tenant: false,
                automatic: false,
            };
            self.groups.plain[at] = Some(
                self.core
                    .register(&new, Nanos(self.clock.shown()))
                    .expect("a valid group is taken"),
            );
        }
    }

    /// A program's own events: it joins, changes its demand, leaves.
    pub(super) fn turn(&mut self, at: usize) {
        if self.clock.time < self.programs[at].turn_at || self.gone_until.is_some() {
            return;
        }
        let (calm, time) = (self.is_calm(), self.clock.time);
        let program = &mut self.programs[at];
        let joined = program.id.is_some();
        match program.nature {
            _ if !joined => {
                let lasts = match program.nature {
                    Nature::Flapping => self.random.between(20, 500),
                    _ => self.random.between(1_000, 15_000),
                };
                program.turn_at = time + lasts * MILLISECOND;
                let dead = program.nature == Nature::Dying
                    && program.alive
                    && program.memory.resident == 0;
                if dead {
                    program.turn_at = u64::MAX;
                } else {
                    self.join(at);
                }
            }
            Nature::Flapping if !calm => {
                program.turn_at = time + self.random.between(20, 500) * MILLISECOND;
                self.leave(at);
            }
            Nature::Dying => {
                // Its memory is free at once; the broker learns of its end now or a little later.
                (
                    program.memory.resident,
                    program.memory.swapped,
                    program.want,
                ) = (0, 0, 0);
                program.live = 0;
                program.turn_at = time + self.random.between(0, 400) * MILLISECOND;
                if self.random.one_in_thousand(500) {
                    self.programs[at].turn_at = u64::MAX;
                    self.leave(at);
                }
            }
            Nature::Bursty if !calm => {
                let most = program.live * 4;
                program.want = self.random.between(program.live, most.max(program.live));
                program.turn_at = time + self.random.between(1_000, 8_000) * MILLISECOND;
                self.report(at);
            }
            _ => {
                program.turn_at = time + SECOND;
                if !calm {
                    self.report(at);
                }
            }
        }
    }

    pub(super) fn join(&mut self, at: usize) {
        let parent = match self.programs[at].place.group {
            Some(group) => self.groups.plain[group],
            None => self.groups.top_of(self.programs[at].place.user),
        };
        let program = &mut self.programs[at];
        program.alive = true;
        let new = NewPrincipal {
            name: format!("{:?}-{at}", program.nature),
            kind: Kind::Process,
            parent,
            weight: Weight::new(program.place.weight).expect("a valid weight"),
            priority: Priority::new(program.place.priority).expect("a valid priority"),
            max: max(program.place.max),
            adaptive: program.is_adaptive(),
            tenant: false,
            automatic: false,
        };
        let id = self.core.register(&new, Nanos(self.clock.shown()));
        let id = id.expect("a valid program is taken");
        self.programs[at].id = Some(id);
        self.programs[at].answering.page = Default::default();
        self.checker.joined(id, self.clock.time);
        self.report(at);
    }

    pub(super) fn leave(&mut self, at: usize) {
        let program = &mut self.programs[at];
        if let Some(id) = program.id.take() {
            program.memory.bound = u64::MAX;
            self.core
                .remove(id)
                .expect("a registered program can leave");
            self.checker.left(id);
        }
        self.checker.disturbed(self.clock.time);
    }

    pub(super) fn report(&mut self, at: usize) {
        let Some(id) = self.programs[at].id else {
            return;
        };
        if self.programs[at].is_adaptive() {
            let more = if self.random.one_in_thousand(200) {
                self.random.between(1, 1000)
            } else {
                0
            };
            let program = &mut self.programs[at];
            program.stalls = program.stalls.map(|known| known + more);
            program.reported_at = Some(self.clock.time);
            let report = self.programs[at].report(id, &mut self.random);
            self.core
                .report(&report)
                .expect("a report of a registered program is taken");
        }
    }
}

fn max(bytes: Option<u64>) -> Max {
    Max::or_none(Bytes(bytes.unwrap_or(0))).expect("a valid maximum")
}
