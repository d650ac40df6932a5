//! Programs, hogs, a kernel and a broker in virtual time.

mod broker;
mod passing;
mod turns;

use crate::checks::{Checker, Failure};
use crate::kernel::{Cgroup, Kernel};
use crate::program::Program;
use crate::random::Random;
use crate::scenario::{GroupPlan, Hog, Scenario};
use plimsoll_broker::decide::{Action, Config, Core, SensedPrincipal};
use plimsoll_unit::{Bytes, MILLISECOND, SECOND};
use plimsoll_wire::messages::Id;

/// Longest step of programs and hogs.
const STEP: u64 = 50 * MILLISECOND;
/// The clock of the pages does not begin at zero.
const EPOCH: u64 = 10_000 * SECOND;

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) ticks: u64,
    pub(crate) virtual_ns: u64,
    pub(crate) tick_ns: u64,
    pub(crate) actions: u64,
}

/// Virtual time, and the clock of the pages, which may jump.
struct Clock {
    /// Nanoseconds since the beginning.
    time: u64,
    /// How far the clock of the pages is ahead, nanoseconds.
    offset: i64,
    /// Whether it has jumped since the last tick.
    jumped: bool,
}

impl Clock {
    /// The clock of the pages, nanoseconds; never 0.
    fn shown(&self) -> u64 {
        (self.time as i64 + self.offset).max(1) as u64
    }

    fn jump(&mut self, by: i64) {
        self.offset = self.offset.saturating_add(by).max(1 - self.time as i64);
        self.jumped = true;
    }
}

/// The ids of the registered groups; `None` while the broker does not know them.
struct Groups {
    /// Those of users.
    tenants: Vec<Option<Id>>,
    /// Those of the scenario.
    plain: Vec<Option<Id>>,
}

impl Groups {
    /// The group of a user, where there are several users.
    fn top_of(&self, user: usize) -> Option<Id> {
        self.tenants.get(user).copied().flatten()
    }

    fn forget(&mut self) {
        self.tenants.fill(None);
        self.plain.fill(None);
    }
}

/// Messages of the broker that have not arrived yet, with the times when they do.
#[derive(Default)]
struct Post {
    /// Actions of rungs.
    actions: Vec<(u64, Action)>,
    wakes: Vec<(u64, Id)>,
}

impl Post {
    fn next_action(&mut self, time: u64) -> Option<Action> {
        take_due(&mut self.actions, time)
    }

    fn next_wake(&mut self, time: u64) -> Option<Id> {
        take_due(&mut self.wakes, time)
    }
}

fn take_due<T>(all: &mut Vec<(u64, T)>, time: u64) -> Option<T> {
    let at = all.iter().position(|&(at, _)| at <= time)?;
    Some(all.swap_remove(at).1)
}

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    random: Random,
    clock: Clock,
    pub(crate) core: Core,
    /// While the broker is down: the time when it returns.
    gone_until: Option<u64>,
    last_tick: u64,
    groups: Groups,
    pub(crate) programs: Vec<Program>,
    hogs: Vec<Hog>,
    kernel: Kernel,
    next_event: usize,
    post: Post,
    sensed: Vec<SensedPrincipal>,
    checker: Checker,
    pub(crate) outcome: Outcome,
}

impl World {
    pub(crate) fn new(scenario: Scenario, watch: &[Id]) -> World {
        let cgroup = |plan: &GroupPlan| Cgroup {
            parent: plan.parent,
            capacity: plan.capacity,
        };
        let mut world = World {
            random: Random::new(scenario.seed.rotate_left(32)),
            clock: Clock {
                time: 0,
                offset: EPOCH as i64,
                jumped: false,
            },
            core: Core::new(Config::default()),
            gone_until: None,
            last_tick: 0,
            groups: Groups {
                tenants: vec![None; scenario.users],
                plain: vec![None; scenario.groups.len()],
            },
            programs: scenario.programs.clone(),
            hogs: scenario.hogs.clone(),
            kernel: Kernel {
                capacity: scenario.capacity,
                cgroups: scenario.groups.iter().map(cgroup).collect(),
                paged: 0,
            },
            next_event: 0,
            post: Post::default(),
            sensed: Vec::new(),
            checker: Checker::new(watch),
            outcome: Outcome::default(),
            scenario,
        };
        world.register_groups();
        world
    }

    /// Runs to the end or to the first broken rule.
    pub(crate) fn run(&mut self) -> Result<Outcome, Failure> {
        while self.clock.time < self.scenario.end_at {
            self.happen();
            if self.gone_until.is_none() && self.is_due() {
                self.tick()?;
            }
            let pace = if self.gone_until.is_some() {
                STEP
            } else {
                self.core.pace().glance.0
            };
            let step = pace.clamp(MILLISECOND, STEP);
            self.clock.time += step;
            self.step(step);
        }
        self.checker
            .at_end(self.scenario.gentle, self.kernel.paged, self.clock.time)?;
        self.outcome.virtual_ns = self.clock.time;
        Ok(self.outcome)
    }

    pub(crate) fn trace(&self) -> &[String] {
        self.checker.trace()
    }

    fn is_calm(&self) -> bool {
        self.clock.time >= self.scenario.calm_at
    }

    fn is_due(&mut self) -> bool {
        let root = self.kernel.used(None, &self.programs, &self.hogs);
        self.clock.time >= self.last_tick + self.core.next_tick().0
            || self.core.glance(None, Bytes(root))
    }
}
