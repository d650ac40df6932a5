//! The daemon's part: senses, ticks, and passes the actions on.

use super::World;
use crate::allocations;
use crate::checks::{Failure, Seen};
use crate::program::Nature;
use plimsoll_broker::decide::{Action, SensedDomain, SensedPrincipal};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};

impl World {
    pub(super) fn misread(&mut self, sensed: SensedDomain) -> SensedDomain {
        let noise = Bytes(self.random.between(0, self.scenario.noise * 2));
        let used = sensed.used + noise - Bytes(self.scenario.noise);
        SensedDomain { used, ..sensed }
    }

    pub(super) fn sense(&mut self) -> SensedDomain {
        self.sensed.clear();
        for at in 0..self.groups.plain.len() {
            let Some(id) = self.groups.plain[at] else {
                continue;
            };
            let domain = self.kernel.sense(Some(at), &self.programs, &self.hogs);
            let domain = domain.map(|sensed| self.misread(sensed));
            self.sensed.push(SensedPrincipal {
                id,
                domain,
                ..SensedPrincipal::default()
            });
        }
        for program in self.programs.iter() {
            let Some(id) = program.id else { continue };
            let absent = program.nature == Nature::Hollow;
            // Some principals are read as they were a step ago, or not this time.
            let (stale, skipped) = if self.scenario.gentle {
                (false, false)
            } else {
                (
                    self.random.one_in_thousand(200),
                    self.random.one_in_thousand(30),
                )
            };
            if !skipped || absent {
                let uses = if stale {
                    program.memory.sensed
                } else {
                    program.memory.resident
                };
                self.sensed.push(SensedPrincipal {
                    id,
                    uses: Bytes(uses),
                    swapped: Bytes(program.memory.swapped),
                    absent,
                    ..SensedPrincipal::default()
                });
            }
        }
        let root = self
            .kernel
            .sense(None, &self.programs, &self.hogs)
            .expect("the root has a capacity");
        self.misread(root)
    }

    pub(super) fn tick(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.clock.jumped) {
            // How much older a report is for the core depends on the jump.
            for program in &mut self.programs {
                program.reported_at = None;
            }
        }
        let domain = self.sense();
        let clock = self.clock.shown();
        let before = allocations::count();
        let began = std::time::Instant::now();
        let actions = self.core.tick(Nanos(clock), &domain, &self.sensed);
        self.outcome.tick_ns += began.elapsed().as_nanos() as u64;
        let allocated = allocations::count() - before;
        let actions = actions.to_vec();
        self.outcome.ticks += 1;
        self.outcome.actions += actions.len() as u64;
        self.last_tick = self.clock.time;
        let seen = Seen {
            time: self.clock.time,
            clock,
            calm: self.is_calm(),
            allocated,
            actions: &actions,
            core: &self.core,
            programs: &self.programs,
        };
        self.checker.after_tick(&seen)?;
        for action in actions {
            self.receive(action);
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, action: Action) {
        let Action::Publish { id, numbers, wake } = action else {
            // No action is lost in the calm, so that the end can be judged.
            let lost = !self.is_calm() && self.random.one_in_thousand(self.scenario.lost);
            if !lost {
                let at = self.clock.time + self.random.between(0, 150) * MILLISECOND;
                self.post.actions.push((at, action));
            }
            return;
        };
        let Some(program) = self
            .programs
            .iter_mut()
            .find(|program| program.id == Some(id))
        else {
            return;
        };
        program.answering.page = numbers;
        if wake && !self.random.one_in_thousand(self.scenario.lost) {
            self.post.wakes.push((
                self.clock.time + self.random.between(0, 3) * MILLISECOND,
                id,
            ));
        }
    }
}
