//! Notes of changes in other processes that must be undone if we are killed: a small file for each process,
//! in a folder of the user's own, with a lock (`flock(2)`) that ends with its holder. A process that finds a
//! note without a lock undoes the change. After a restart of the machine the folder is gone, like the
//! processes.

use crate::process::Process;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The most files that are looked at.
const MOST: usize = 1024;
/// Bytes of a file that are read at most.
const LONGEST: u64 = 4096;
/// Tries to get a note that another process locks or removes, and the pause between two. A search for notes
/// holds each lock only for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// The mode bits that let others write.
const OF_OTHERS: u32 = 0o022;

/// A folder of notes, which only its user can write to.
#[derive(Debug)]
pub struct Notes(OwnedFd);

/// A process that a note is about, and of what kind the note is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its number.
    pub pid: u32,
    /// Clock ticks after boot at which it started.
    pub started: u64,
    /// Which part of ours wrote it: `a` to `z`, `0` to `9` and `-`.
    pub kind: String,
}

/// A note of ours. It is removed when this is dropped, and stays if we are killed.
#[derive(Debug)]
pub struct Note {
    folder: OwnedFd,
    name: String,
    file: File,
}

impl About {
    fn name(&self) -> String {
        format!("{}-{}.{}", self.pid, self.started, self.kind)
    }

    fn lives(&self) -> bool {
        let pid = i32::try_from(self.pid);
        pid.is_ok_and(|pid| Process::open_known(pid, self.started).is_ok())
    }

    fn of(name: &str) -> Option<About> {
        let (process, kind) = name.split_once('.')?;
        let (pid, started) = process.split_once('-')?;
        let about = About {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
            kind: kind.to_owned(),
        };
        // Nothing else is ours.
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        (about.name() == name && kind.bytes().all(plain)).then_some(about)
    }
}

impl Notes {
    /// Opens a folder.
    ///
    /// # Errors
    /// The system's error; `PermissionDenied` if it is another user's or open to others.
    pub fn open(path: &Path) -> io::Result<Notes> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&folder)?;
        let own = rustix::process::geteuid().as_raw();
        if found.st_uid == own && found.st_mode & OF_OTHERS == 0 {
            Ok(Notes(folder))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Another handle of the folder.
    ///
    /// # Errors
    /// The system's error.
    pub fn again(&self) -> io::Result<Notes> {
        Ok(Notes(self.0.try_clone()?))
    }

    /// Writes a note, which is ours until we end. `text` is given what a killed process noted and nobody
    /// could put back yet; it is empty if there is no such thing.
    ///
    /// # Errors
    /// The system's error; `WouldBlock` if another process has it.
    pub fn write(&self, about: &About, text: impl FnOnce(&str) -> String) -> io::Result<Note> {
        for _ in 0..TRIES {
            match self.locked(about.name(), OFlags::RDWR | OFlags::CREATE) {
                Ok(Some(note)) => {
                    // A note that is not text is not ours.
                    note.set(&text(&note.read().unwrap_or_default()))?;
                    return Ok(note);
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Opens and locks a file; `None` if another process removed it before it was locked.
    fn locked(&self, name: String, flags: OFlags) -> io::Result<Option<Note>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, &name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let ours = rustix::fs::fstat(&file)?;
        let named = rustix::fs::statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW);
        let same =
            named.is_ok_and(|named| (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino));
        let folder = self.0.try_clone()?;
        let file = File::from(file);
        Ok(same.then_some(Note { folder, name, file }))
    }

    /// The notes whose writers are gone, with what they say. They are removed when they are dropped.
    ///
    /// # Errors
    /// The system's error about the folder.
    pub fn left(&self) -> io::Result<Vec<(About, String, Note)>> {
        let entries = rustix::fs::Dir::read_from(&self.0)?.take(MOST);
        let mut left = Vec::new();
        for entry in entries.flatten() {
            let name = String::from_utf8_lossy(entry.file_name().to_bytes()).into_owned();
            let Some(about) = About::of(&name) else {
                continue;
            };
            // One that is locked has its writer; one that cannot be opened is none.
            let Ok(Some(note)) = self.locked(name, OFlags::RDWR) else {
                continue;
            };
            match note.read() {
                // Its writer made it this moment, and has not locked it yet.
                Ok(text) if text.is_empty() && about.lives() => note.leave(),
                Ok(text) => left.push((about, text, note)),
                // It is none of ours, and is removed.
                Err(_) => {}
            }
        }
        Ok(left)
    }
}

impl Note {
    fn read(&self) -> io::Result<String> {
        let mut text = String::new();
        (&self.file).take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Makes it say something else.
    ///
    /// # Errors
    /// The system's error.
    pub fn set(&self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Leaves it for who comes next.
    pub fn leave(mut self) {
        self.name.clear();
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If it cannot be removed, the next one finds a process that is gone, or puts back the same.
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(pid: u32, kind: &str) -> About {
        About {
            pid,
            started: 7,
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn a_note_is_there_as_long_as_its_writer_and_longer_only_if_that_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let notes = Notes::open(path).unwrap();
        let note = notes
            .write(&about(1, "hotspot"), |_| "A 1\n".into())
            .unwrap();
        assert!(notes.left().unwrap().is_empty(), "its writer is there");
        assert!(notes.write(&about(1, "hotspot"), |_| "B".into()).is_err());
        note.set("A 22\nB 3\n").unwrap();
        note.set("A 2\n").unwrap();
        // As if its process were killed: the lock goes, the file stays.
        note.leave();
        let left = notes.again().unwrap().left().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(
            (&left[0].0, left[0].1.as_str()),
            (&about(1, "hotspot"), "A 2\n")
        );
        assert!(
            notes.left().unwrap().is_empty(),
            "one puts it back at a time"
        );
        // Nobody could put it back, and a new one adds to it.
        for (_, _, note) in left {
            note.leave();
        }
        let more = |before: &str| format!("{before}B 3\n");
        notes.write(&about(1, "hotspot"), more).unwrap().leave();
        let left = notes.left().unwrap();
        assert_eq!(left[0].1, "A 2\nB 3\n");
        drop(left);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
        drop(notes.write(&about(1, "phases"), |_| "x".into()).unwrap());
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
    }

    #[test]
    fn a_note_that_was_just_made_or_removed_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::open(dir.path()).unwrap();
        let own = Process::own().unwrap();
        let mut mine = about(own.pid().unsigned_abs(), "x");
        mine.started = own.start_time();
        let path = dir.path().join(mine.name());
        std::fs::write(&path, "").unwrap();
        assert!(notes.left().unwrap().is_empty() && path.exists());
        // One that opened it before another process removed it has no note.
        let open = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
        std::fs::remove_file(&path).unwrap();
        rustix::fs::flock(&open, FlockOperation::NonBlockingLockExclusive).unwrap();
        let note = notes
            .write(&mine, |before| format!("{before}A 1\n"))
            .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "A 1\n");
        drop(note);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_note_is_left_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let notes = Notes::open(path).unwrap();
        for name in [
            "1.x",
            "1-2.X",
            "01-2.x",
            "-1-2.x",
            "1-2.",
            "a-2.x",
            "1-2.x.part",
        ] {
            std::fs::write(path.join(name), "").unwrap();
        }
        symlink("/etc/hostname", path.join("3-4.x")).unwrap();
        std::fs::create_dir(path.join("5-6.x")).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join("7-8.x"), mode).unwrap();
        std::fs::write(path.join("9-9.x"), [0xff; 9]).unwrap();
        let left: Vec<_> = notes
            .left()
            .unwrap()
            .into_iter()
            .map(|left| left.0)
            .collect();
        assert!(
            left.iter().all(|about| about.pid == 1 || about.pid == 7),
            "{left:?}"
        );
        // A folder that others may write to is refused.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Notes::open(path).is_err());
    }
}
