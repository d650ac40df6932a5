//! Programs and hogs in one memory. The one whose clock is behind runs next.

use super::memory::{BLOCK, Costs, Memory};
use super::program::{Behaviour, Outcome, Policy, Program};
use plimsoll_unit::{Bytes, Nanos, SECOND};

/// Memory that something else takes, holds and gives back.
#[derive(Clone, Debug, Default)]
pub struct Hog {
    /// When it wants how much, in the order of time.
    pub steps: Vec<(Nanos, Bytes)>,
    /// Bytes that it takes in a second.
    pub rate: u64,
}

/// A hog while it runs.
struct Running {
    hog: Hog,
    clock: Nanos,
    /// The next step, blocks that it wants, blocks that it has.
    next: usize,
    wants: u64,
    holds: u64,
}

/// A memory and the programs in it.
pub struct World {
    memory: Memory,
    programs: Vec<Program>,
    hogs: Vec<Running>,
}

impl World {
    /// A memory of this size.
    pub fn new(room: Bytes, costs: Costs) -> World {
        World {
            memory: Memory::new(room, costs),
            programs: Vec::new(),
            hogs: Vec::new(),
        }
    }

    /// Adds a program that starts at `start`.
    pub fn program(
        mut self,
        behaviour: Behaviour,
        start: Nanos,
        policy: impl Policy + 'static,
    ) -> World {
        let mut program = Program::new(behaviour, Box::new(policy));
        program.clock = start;
        program.enter(&mut self.memory);
        self.programs.push(program);
        self
    }

    /// Others read files all the time: no memory is ever free, but file pages are dropped for little.
    pub fn files(mut self) -> World {
        self.memory.files = true;
        self
    }

    /// Adds a hog.
    pub fn hog(mut self, hog: Hog) -> World {
        self.hogs.push(Running {
            hog,
            clock: Nanos::ZERO,
            next: 0,
            wants: 0,
            holds: 0,
        });
        self
    }

    /// Runs until all programs have done their work or have reached `until`.
    pub fn run(mut self, until: Nanos) -> Vec<Outcome> {
        loop {
            let programs = self.programs.iter_mut();
            let behind = programs
                .filter(|program| !program.is_done() && program.clock < until)
                .min_by_key(|program| program.clock);
            let Some(program) = behind else { break };
            let hogs = self.hogs.iter_mut();
            let hog = hogs.min_by_key(|hog| hog.clock);
            match hog.filter(|hog| hog.clock <= program.clock) {
                Some(hog) => hog.step(&mut self.memory),
                None => program.step(&mut self.memory),
            }
        }
        let programs = self.programs.into_iter();
        programs.map(|program| program.outcome).collect()
    }
}

impl Running {
    fn step(&mut self, memory: &mut Memory) {
        while let Some((_, bytes)) = self
            .hog
            .steps
            .get(self.next)
            .filter(|step| step.0 <= self.clock)
        {
            self.wants = bytes.0 / BLOCK.0;
            self.next += 1;
        }
        while self.holds > self.wants {
            memory.unlock();
            self.holds -= 1;
        }
        if self.holds < self.wants {
            let wait = memory.lock(self.clock);
            self.holds += 1;
            self.clock += wait + Nanos(BLOCK.0 * SECOND / self.hog.rate.max(1));
        } else {
            let next = self.hog.steps.get(self.next);
            self.clock = next.map_or(Nanos(u64::MAX), |step| step.0);
        }
    }
}
