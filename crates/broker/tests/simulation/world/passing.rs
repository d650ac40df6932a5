//! Time passes: programs and hogs grow and shrink, wake-ups and rungs arrive.

use super::World;
use crate::kernel::{free, page_out};
use plimsoll_broker::decide::Action;
use plimsoll_unit::SECOND;

impl World {
    pub(super) fn step(&mut self, passed: u64) {
        let (time, gone) = (self.time, self.gone_until.is_some());
        self.deliver();
        for program in self.programs.iter_mut().filter(|program| program.alive) {
            program.sensed = program.resident;
            let change = program.step(time, passed, gone);
            if change >= 0 {
                program.resident += change as u64;
            } else {
                free(program, change.unsigned_abs());
            }
            // A program that does not cooperate touches its swapped pages again.
            if !program.behaves() {
                let back = program
                    .swapped
                    .min(20 * passed / 1000)
                    .min(program.bound.saturating_sub(program.resident));
                program.swapped -= back;
                program.resident += back;
            }
        }
        for hog in &mut self.hogs {
            let wants = if (hog.from..hog.until).contains(&time) {
                hog.size
            } else {
                0
            };
            let most = (u128::from(hog.rate) * u128::from(passed) / u128::from(SECOND)) as u64;
            hog.resident = wants.min(hog.resident + most);
        }
        self.kernel.reclaim(&mut self.programs, &mut self.hogs);
    }

    /// Delivers wake-ups and rungs whose time has come.
    pub(super) fn deliver(&mut self) {
        let time = self.time;
        while let Some(at) = self.wakes.iter().position(|&(at, _)| at <= time) {
            let (_, id) = self.wakes.swap_remove(at);
            if let Some(program) = self
                .programs
                .iter_mut()
                .find(|program| program.id == Some(id))
            {
                program.hear(time);
            }
        }
        while let Some(at) = self.pending.iter().position(|&(at, _)| at <= time) {
            let (_, action) = self.pending.swap_remove(at);
            self.carry_out(action);
        }
    }

    pub(super) fn carry_out(&mut self, action: Action) {
        let (id, bytes) = match action {
            Action::PageOut { id, bytes }
            | Action::Take { id, bytes }
            | Action::Bound { id, bytes } => (id, bytes),
            Action::Publish { .. } => return,
        };
        let Some(program) = self
            .programs
            .iter_mut()
            .find(|program| program.id == Some(id))
        else {
            return;
        };
        match action {
            // Not all of its pages are cold.
            Action::PageOut { .. } => page_out(program, bytes / 2),
            Action::Take { .. } => page_out(program, bytes),
            _ => program.bound = bytes,
        }
        self.core.acted(id, matches!(action, Action::Bound { .. }));
    }
}
