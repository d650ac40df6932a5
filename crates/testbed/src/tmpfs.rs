//! A file system in memory, as small as a test wants.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs; unmounted when this is dropped.
#[derive(Debug)]
pub struct Tmpfs {
    path: PathBuf,
    /// The directory that it is mounted in.
    _parent: tempfile::TempDir,
}

impl Tmpfs {
    /// Mounts one with these options of `mount`, such as `size=256k`. Without the rights for that, the test
    /// is skipped.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn mount(options: &str) -> Option<Tmpfs> {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("tmpfs");
        std::fs::create_dir(&path).expect("it can");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "plimsoll-test"])
            .arg(&path)
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("a tmpfs can only be mounted by root");
            return None;
        }
        Some(Tmpfs {
            path,
            _parent: parent,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes its options.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn remount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.path)
            .status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
