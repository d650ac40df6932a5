//! The agent in the machine, from the adapter's side.

use super::{Loop, NAME_WITH_AGENT, SizedBy, agent};
use crate::link::Link;
use tracing::info;

impl Loop<'_> {
    /// Has the agent loaded into the machine, and reports if that is so from now on.
    pub(super) fn has_agent(&mut self, link: &mut dyn Link) -> bool {
        self.agent = agent::in_machine(&self.target, &self.attach, &self.machine, &mut self.tries);
        let Some(page) = &self.agent else {
            return false;
        };
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
        link.steered_by(Some(NAME_WITH_AGENT));
        true
    }
}
