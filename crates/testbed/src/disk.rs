//! A small file system of a test's own, which can be made to stand still.

use crate::skip;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of an ext4.
const EXT4: u64 = 32 << 20;
/// Bytes of a Btrfs, which needs more to keep its books.
const BTRFS: u64 = 512 << 20;

/// A file system in a file; unmounted when this is dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// The directory that it is mounted in, and that its file is in.
    _parent: tempfile::TempDir,
}

impl Disk {
    /// Makes and mounts an ext4 in a directory. Where that cannot be done, the test is skipped.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn mount(dir: &Path) -> Option<Disk> {
        Disk::made(dir, "ext4", EXT4)
    }

    /// As [`Disk::mount`], a Btrfs.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn btrfs(dir: &Path) -> Option<Disk> {
        Disk::made(dir, "btrfs", BTRFS)
    }

    fn made(dir: &Path, kind: &str, bytes: u64) -> Option<Disk> {
        let parent = tempfile::tempdir_in(dir).expect("a directory");
        let (image, path) = (parent.path().join("image"), parent.path().join("disk"));
        std::fs::create_dir(&path).expect("it can");
        // Other users may enter it, if they may enter `dir`.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(parent.path(), open).expect("it is ours");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(bytes).expect("it can be sparse");
        let make = format!("mkfs.{kind}");
        let made = does(Command::new(&make).arg("-q").arg(&image));
        let mounted = made
            && does(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .args([&image, &path]),
            );
        if !mounted {
            skip(format_args!(
                "no {kind} can be made and mounted here (root, {make}, loop devices)"
            ));
            return None;
        }
        Some(Disk {
            path,
            _parent: parent,
        })
    }

    /// Makes a subvolume of a Btrfs, and returns its directory.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn subvolume(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        btrfs(
            Command::new("btrfs")
                .args(["subvolume", "create"])
                .arg(&path),
        );
        path
    }

    /// Makes a snapshot of a subvolume of a Btrfs, and returns its directory. Files have the same inodes
    /// there.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn snapshot(&self, of: &Path, name: &str) -> PathBuf {
        let path = self.path.join(name);
        let mut command = Command::new("btrfs");
        command.args(["subvolume", "snapshot"]).args([of, &path]);
        btrfs(&mut command);
        path
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

fn btrfs(command: &mut Command) {
    let done = command.stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "{command:?}");
}

fn does(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
