//! Looks at the same processes again and again, and tells the pages that came back between two looks, too.

use crate::history::{History, MAX_CHUNKS};
use crate::look::{Look, LookError, Options, look_after};
use crate::snapshot::Reads;
use std::collections::HashMap;

/// The history of each process, and its reads that are still under way. Its memory is bounded for any
/// processes: see [`crate::history`].
#[derive(Debug, Default)]
pub struct Watch(HashMap<i32, (History, Reads)>);

impl Watch {
    /// Looks at a process, as [`crate::look()`] does, and from the second look on also tells which of its
    /// pages are refaulted.
    ///
    /// # Errors
    /// As [`crate::look()`].
    pub fn look(&mut self, pid: i32, options: &Options) -> Result<Look, LookError> {
        let others = self.0.iter().filter(|(other, _)| **other != pid);
        let used: usize = others.map(|(_, (history, _))| history.chunks()).sum();
        let (history, reads) = self.0.entry(pid).or_default();
        history.room = MAX_CHUNKS.saturating_sub(used);
        let looked = look_after(pid, options, Some(history), reads);
        if looked.is_err() {
            self.0.remove(&pid);
        }
        looked
    }

    /// Forgets all processes but these.
    pub fn keep(&mut self, pids: &[i32]) {
        self.0.retain(|pid, _| pids.contains(pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_told_from_the_second_look_on() {
        // Without room for anything.
        let (mut history, mut reads) = (History::default(), Reads::default());
        let mut tells = || {
            let own = i32::try_from(std::process::id()).unwrap();
            let look =
                look_after(own, &Options::default(), Some(&mut history), &mut reads).unwrap();
            look.notes.iter().any(|note| note.contains("refaulted"))
        };
        assert!(!tells());
        assert!(tells());
    }
}
