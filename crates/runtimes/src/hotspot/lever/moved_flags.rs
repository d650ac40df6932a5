//! The flags of a machine that were set, and their restoration: when the machine is let go, and by a note if
//! we are killed before.

use crate::hotspot::attach::{Attach, AttachError};
use crate::hotspot::machine::Flags;
use crate::hotspot::release::{self, Had, RELEASE};
use crate::lever::Target;
use plimsoll_kernel::undo_notes::Note;
use plimsoll_programs::hotspot::HotSpot;
use std::collections::BTreeSet;
use tracing::warn;

/// The flags that were set. Each is in the note before it is set.
#[derive(Debug, Default)]
pub(super) struct MovedFlags {
    /// Their names.
    moved: BTreeSet<&'static str>,
    /// The values of flags that an adapter that was killed left to be put back.
    had: Had,
    /// The note of the flags to restore if we are killed.
    note: Option<Note>,
}

impl MovedFlags {
    /// A flag of the machine, which had these `flags` at first, is about to be set.
    pub(super) fn add(&mut self, name: &'static str, flags: &Flags, target: &Target<'_>) {
        if !self.moved.insert(name) {
            return;
        }
        let text = |had: &Had| release::text(flags, &self.moved, had);
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
        self.note = target.note(&HotSpot, text);
        self.had = had;
    }

    /// Restores the flags, so that the machine sizes its heap by itself again. Warns once of those that
    /// could not be restored.
    pub(super) fn restore(&mut self, flags: &Flags, attach: &Attach, pid: u32) {
        let had = std::mem::take(&mut self.had);
        let settings = release::settings(flags, &self.moved, &had);
        self.note = None;
        let mut kept = Vec::new();
        let mut why = String::new();
        for (name, value) in settings {
            let setting = [name, &value.to_string()];
            // Commands are carried out in the order sent, even if an answer is late.
            why = match attach.command("setflag", &setting, RELEASE) {
                Ok(reply) if reply.code == 0 => continue,
                Ok(reply) => reply.text.trim().to_owned(),
                Err(AttachError::Gone { .. }) => return,
                Err(error) => error.to_string(),
            };
            kept.push(setting.join("="));
        }
        if !kept.is_empty() {
            warn!(
                "process {pid} is let go, but may not have all flags back that it had: {} ({why}); `jcmd \
                 {pid} VM.set_flag` sets them",
                kept.join(", "),
            );
        }
    }
}
