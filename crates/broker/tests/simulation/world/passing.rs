//! Time passes: programs and hogs grow and shrink, wake-ups and rungs arrive.

use super::World;
use plimsoll_broker::decide::Action;
use plimsoll_unit::SECOND;

impl World {
    pub(super) fn step(&mut self, passed: u64) {
        let (time, gone) = (self.clock.time, self.gone_until.is_some());
        self.deliver();
        for program in self.programs.iter_mut().filter(|program| program.alive) {
            program.memory.sensed = program.memory.resident;
            let change = program.step(time, passed, gone);
            program.memory.change(change);
            // A program that does not cooperate touches its swapped pages again.
            if !program.behaves() {
                program.memory.page_in(20 * passed / 1000);
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
        let time = self.clock.time;
        while let Some(id) = self.post.next_wake(time) {
            if let Some(program) = self
                .programs
                .iter_mut()
                .find(|program| program.id == Some(id))
            {
                program.answering.hear(time);
            }
        }
        while let Some(action) = self.post.next_action(time) {
            self.carry_out(action);
        }
    }

    pub(super) fn carry_out(&mut self, action: Action) {
        let (id, bytes) = match action {
            Action::PageOut { id, bytes }
            | Action::Take { id, bytes }
            | Action::Bound { id, bytes } => (id, bytes.0),
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
            Action::PageOut { .. } => program.memory.page_out(bytes / 2),
            Action::Take { .. } => program.memory.page_out(bytes),
            _ => program.memory.bound = bytes,
        }
        self.core.acted(id, matches!(action, Action::Bound { .. }));
    }
}
