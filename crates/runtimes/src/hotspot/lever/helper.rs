//! The agent in the machine, from the adapter's side.

use super::super::agent::in_machine;
use super::{HotSpotLever, SizedBy};
use tracing::info;

impl HotSpotLever<'_> {
    /// Has the agent loaded into the machine.
    pub(super) fn load_agent(&mut self) {
        self.agent = in_machine(&self.target, &self.attach, &self.machine, &mut self.tries);
        let Some(page) = &self.agent else { return };
        let pid = self.target.process.pid;
        if let Ok(view) = page.view() {
            self.told.look(pid, &view);
        }
        if self.levers.sized_by == SizedBy::Fixed && self.empties() {
            info!(
                "process {pid}: the agent gives back what its heap does not use; it is collected above \
                 its limit"
            );
        }
    }
}
