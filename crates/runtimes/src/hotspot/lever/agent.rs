//! The agent in the machine, from the adapter's side, and what the user is told of both.

use super::super::agent::in_machine;
use super::{HotSpotLever, SizedBy};
use tracing::{info, warn};

impl HotSpotLever<'_> {
    /// Tells the user what the machine is, and how it can be steered.
    pub(super) fn introduce(&self) {
        let (pid, machine) = (self.target.process.pid, &self.machine);
        info!(
            "process {pid} is a Java {} virtual machine with {}",
            machine.version, machine.collector
        );
        for remark in &self.levers.remarks {
            // That a machine cannot be steered at all is worth a warning, even without `-v`.
            if self.levers.sized_by == SizedBy::Fixed && !self.empties() {
                warn!("process {pid}: {remark}");
            } else {
                info!("process {pid}: {remark}");
            }
        }
    }

    /// Has the agent loaded into the machine.
    pub(super) fn load_agent(&mut self) {
        self.agent = in_machine(&self.target, &self.attach, &self.machine, &mut self.tries);
        let Some(page) = &self.agent else { return };
        let pid = self.target.process.pid;
        if let Ok(view) = page.view() {
            self.told.look(pid, &view, self.kept);
        }
        if self.levers.sized_by == SizedBy::Fixed && self.empties() {
            info!(
                "process {pid}: the agent gives back what its heap does not use; it is collected above \
                 its limit"
            );
        }
    }
}
