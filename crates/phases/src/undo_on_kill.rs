//! If the process that orders threads is killed, nothing is there to undo it: threads that were put back
//! would stay there. So a process of its own waits for the end of its standard input, which is the other end
//! of a pipe that only the first one has, and undoes then what is left.

use crate::parameters::Setter;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::undo_notes::{About, Note, Notes};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The most threads that are looked at.
const MOST: usize = 65_536;

/// The process that waits. It undoes what is left, and ends, when this is dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    /// The note that is left if both are killed.
    _note: Option<Note>,
}

/// The kind of our [notes](plimsoll_kernel::undo_notes), which say the words of [`undo`] after the first two.
pub const NOTE: &str = "phases";

impl Guarded {
    /// Starts `program COMMAND PID START WORDS…`, which is to call [`guard`] with the words after `COMMAND`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(
        (program, command): (&Path, &str),
        process: &Process,
        setter: &Setter,
        notes: Option<&Notes>,
    ) -> std::io::Result<Guarded> {
        let about = about(process.pid().unsigned_abs(), process.start_time());
        let text = setter.words().join(" ");
        // Without a note, only who kills both leaves something.
        let note = notes.and_then(|notes| notes.write(&about, |_| text).ok());
        let mut guard = Command::new(program);
        guard
            .arg(command)
            .arg(process.pid().to_string())
            .arg(process.start_time().to_string())
            .args(setter.words());
        // The terminal's signals are for the first process, whose end ends this one.
        guard.process_group(0);
        guard
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Guarded {
            child: guard.spawn()?,
            _note: note,
        })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn about(pid: u32, started: u64) -> About {
    About {
        pid,
        started,
        kind: NOTE.to_owned(),
    }
}

/// As [`undo`], and removes the note of it, which is left if the first process was killed: nobody is to undo
/// it again, when the program may have what its user set since.
pub fn guard(input: &mut dyn Read, words: &[String], notes: Option<&Notes>) -> bool {
    if !undo(input, words) {
        return false;
    }
    let of = |at: usize| words.get(at)?.parse::<u64>().ok();
    let pid = of(0).and_then(|pid| u32::try_from(pid).ok());
    if let (Some(notes), Some((pid, started))) = (notes, pid.zip(of(1))) {
        // Ours now, unless the first process lives and removes it itself; removed when it is dropped.
        let _ = notes.write(&about(pid, started), |_| words[2..].join(" "));
    }
    true
}

/// Waits for the end of `input`, then gives all threads of a process what the program had, where they still
/// have what was set. `words`: as they were given to the command. False if they make no sense.
pub fn undo(input: &mut dyn Read, words: &[String]) -> bool {
    let number = |word: Option<&String>| word.and_then(|word| word.parse::<u64>().ok());
    let (Some(pid), Some(start)) = (number(words.first()), number(words.get(1))) else {
        return false;
    };
    let setter = words.get(2..).and_then(Setter::from_words);
    let (Some(setter), Ok(pid)) = (setter, i32::try_from(pid)) else {
        return false;
    };
    let mut buffer = [0; 64];
    while input.read(&mut buffer).is_ok_and(|read| read > 0) {}
    // It may be gone, or its number be that of another one.
    if let Ok(process) = Process::open_known(pid, start) {
        undo_heirs(&process, &setter);
    }
    true
}

/// Gives all threads and child processes that still have what was set what the program had.
pub(crate) fn undo_heirs(process: &Process, setter: &Setter) {
    undo_heirs_where(process, setter, &|_| true);
}

/// As [`undo_heirs`], for those that satisfy `is`.
pub(crate) fn undo_heirs_where(process: &Process, setter: &Setter, is: &dyn Fn(i32) -> bool) {
    let threads = plimsoll_kernel::sched::threads(process, MOST);
    let mut all = threads.unwrap_or_default();
    // Those below a process that cannot be looked at are not known.
    let _ = plimsoll_kernel::process::descendants(process.pid(), MOST, &mut all);
    for tid in all {
        if is(tid) {
            setter.restore_heir(tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deprioritise::Lever;

    #[test]
    fn the_guard_removes_a_note_that_nobody_has_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::open(folder.path()).unwrap();
        // The kernel gives no process such a number.
        let (gone, own) = (about(4_194_305, 1), about(4_194_306, 1));
        let notes_left = || std::fs::read_dir(folder.path()).unwrap().count();
        let held = notes.write(&own, |_| "nothing".to_owned()).unwrap();
        notes
            .write(&gone, |_| "nice 0 5".to_owned())
            .unwrap()
            .leave();
        let words = |about: &About| -> Vec<String> {
            let numbers = [about.pid.to_string(), about.started.to_string()];
            let setter = [Lever::ALL[0].word(), "other", "0", "0", "3000000"];
            numbers
                .into_iter()
                .chain(setter.map(str::to_owned))
                .collect()
        };
        assert!(!guard(
            &mut std::io::empty(),
            &["x".to_owned()],
            Some(&notes)
        ));
        assert_eq!(notes_left(), 2);
        assert!(guard(&mut std::io::empty(), &words(&gone), Some(&notes)));
        assert_eq!(notes_left(), 1);
        // The first process has this one.
        assert!(guard(&mut std::io::empty(), &words(&own), Some(&notes)));
        assert_eq!(notes_left(), 1);
        drop(held);
        assert_eq!(notes_left(), 0);
    }
}
