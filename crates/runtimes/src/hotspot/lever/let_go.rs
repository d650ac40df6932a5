//! Restores the machine's flags when it is let go, and notes them for the case that we are killed before.

use super::HotSpotLever;
use crate::hotspot::attach::AttachError;
use crate::hotspot::release::{self, Had, RELEASE};
use plimsoll_programs::hotspot::HotSpot;
use tracing::warn;

impl HotSpotLever<'_> {
    /// A flag is about to be set.
    pub(super) fn moves(&mut self, name: &'static str) {
        if !self.moved.insert(name) {
            return;
        }
        let text = |had: &Had| release::text(&self.machine.flags, &self.moved, had);
        if let Some(note) = &self.note {
            // If it cannot be written, less is put back after we are killed.
            let _ = note.set(&text(&self.had));
            return;
        }
        let mut had = Had::new();
        let text = |before: &str| {
            had = release::had(before);
            text(&had)
        };
        self.note = self.target.note(&HotSpot, text);
        self.had = had;
    }

    /// Restores the machine's flags, so that it sizes its heap by itself again. Warns once of those that
    /// could not be restored.
    pub(super) fn let_go(&mut self) {
        if let Some(page) = &self.agent {
            page.wish(None);
        }
        self.speak();
        self.leave_uncounted();
        let had = std::mem::take(&mut self.had);
        let settings = release::settings(&self.machine.flags, &self.moved, &had);
        self.note = None;
        let mut kept = Vec::new();
        let mut why = String::new();
        for (name, value) in settings {
            let setting = [name, &value.to_string()];
            // Commands are carried out in the order sent, even if an answer is late.
            why = match self.attach.command("setflag", &setting, RELEASE) {
                Ok(reply) if reply.code == 0 => continue,
                Ok(reply) => reply.text.trim().to_owned(),
                Err(AttachError::Gone { .. }) => return,
                Err(error) => error.to_string(),
            };
            kept.push(setting.join("="));
        }
        if !kept.is_empty() {
            warn!(
                "process {} is let go, but may not have all flags back that it had: {} ({why}); \
                 `jcmd {0} VM.set_flag` sets them",
                self.target.process.pid,
                kept.join(", "),
            );
        }
    }
}
