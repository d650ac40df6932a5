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
use plimsoll_unit::{MILLISECOND, SECOND};
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

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    random: Random,
    pub(crate) time: u64,
    offset: i64,
    pub(crate) core: Core,
    /// While the broker is down: the time when it returns.
    gone_until: Option<u64>,
    last_tick: u64,
    /// Whether the clock has jumped since the last tick.
    jumped: bool,
    /// The groups of users.
    tenants: Vec<Option<Id>>,
    pub(crate) groups: Vec<Option<Id>>,
    pub(crate) programs: Vec<Program>,
    hogs: Vec<Hog>,
    kernel: Kernel,
    next_event: usize,
    /// Actions of rungs that are not carried out yet.
    pending: Vec<(u64, Action)>,
    /// Wake-ups that have not arrived yet.
    wakes: Vec<(u64, Id)>,
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
            time: 0,
            offset: EPOCH as i64,
            core: Core::new(Config::default()),
            gone_until: None,
            last_tick: 0,
            jumped: false,
            tenants: vec![None; scenario.users],
            groups: vec![None; scenario.groups.len()],
            programs: scenario.programs.clone(),
            hogs: scenario.hogs.clone(),
            kernel: Kernel {
                capacity: scenario.capacity,
                cgroups: scenario.groups.iter().map(cgroup).collect(),
                paged: 0,
            },
            next_event: 0,
            pending: Vec::new(),
            wakes: Vec::new(),
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
        while self.time < self.scenario.end_at {
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
            self.time += step;
            self.step(step);
        }
        self.checker
            .at_end(self.scenario.gentle, self.kernel.paged, self.time)?;
        self.outcome.virtual_ns = self.time;
        Ok(self.outcome)
    }

    pub(crate) fn trace(&self) -> &[String] {
        self.checker.trace()
    }

    fn is_calm(&self) -> bool {
        self.time >= self.scenario.calm_at
    }

    fn clock(&self) -> u64 {
        (self.time as i64 + self.offset).max(1) as u64
    }

    fn is_due(&mut self) -> bool {
        let root = self.kernel.used(None, &self.programs, &self.hogs);
        self.time >= self.last_tick + self.core.next_tick().0 || self.core.glance(None, root)
    }
}
