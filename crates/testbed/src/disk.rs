//! A small file system of a test's own, which can be made to stand still.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the file system.
const BYTES: u64 = 32 << 20;

/// An ext4 in a file; unmounted when this is dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// The directory that it is mounted in, and that its file is in.
    _parent: tempfile::TempDir,
}

impl Disk {
    /// Makes and mounts one in a directory. Where that cannot be done, the test is skipped.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn mount(dir: &Path) -> Option<Disk> {
        let parent = tempfile::tempdir_in(dir).expect("a directory");
        let (image, path) = (parent.path().join("image"), parent.path().join("disk"));
        std::fs::create_dir(&path).expect("it can");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(BYTES).expect("it can be sparse");
        let made = does(Command::new("mkfs.ext4").arg("-q").arg(&image));
        let mounted = made
            && does(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .args([&image, &path]),
            );
        if !mounted {
            skip("no file system can be made and mounted here (root, mkfs.ext4, loop devices)");
            return None;
        }
        Some(Disk {
            path,
            _parent: parent,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Freezes it: a process that writes to it waits, in a page fault too, until the guard is dropped.
    /// Nothing ends such a wait, not even SIGKILL. Where it cannot be frozen, the test is skipped.
    pub fn freeze(&self) -> Option<Frozen<'_>> {
        let frozen = does(Command::new("fsfreeze").arg("--freeze").arg(&self.path));
        if !frozen {
            skip("a file system cannot be frozen here (root, fsfreeze)");
        }
        frozen.then_some(Frozen(self))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// A file system that stands still until this is dropped.
#[derive(Debug)]
pub struct Frozen<'a>(&'a Disk);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = does(Command::new("fsfreeze").arg("--unfreeze").arg(&self.0.path));
    }
}

fn does(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
