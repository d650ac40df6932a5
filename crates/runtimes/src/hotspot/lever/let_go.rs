//! What is undone when the machine is let go, and noted for the case that we are killed before.

use super::HotSpotLever;
use crate::hotspot::release::{self, Had, NOTE, RELEASE};
use plimsoll_kernel::notes::About;

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
        let about = About {
            pid: self.target.process.pid,
            started: self.target.process.started,
            kind: NOTE.to_owned(),
        };
        let notes = self.target.options.notes.as_ref();
        let mut had = Had::new();
        let text = |before: &str| {
            had = release::had(before);
            text(&had)
        };
        self.note = notes.and_then(|notes| notes.write(&about, text).ok());
        self.had = had;
    }

    /// Restores the machine's flags, so that it sizes its heap by itself again.
    pub(super) fn let_go(&mut self) {
        if let Some(page) = &self.agent {
            page.wish(None);
        }
        self.speak();
        let had = std::mem::take(&mut self.had);
        for (name, value) in release::settings(&self.machine.flags, &self.moved, &had) {
            // Commands are carried out in the order sent, even if an answer is late.
            let _ = self.ask("setflag", &[name, &value.to_string()], RELEASE);
        }
        self.note = None;
    }
}
