//! Names in the file system that this broker made and that may belong to another file by now.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that this broker made, by its name. It is removed when dropped, unless the name belongs
/// to another file by then: somebody removed our directory, and a later broker made its own.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    /// The name.
    path: PathBuf,
    /// Device and inode number of the file; `None` if there was no such file.
    file: Option<(u64, u64)>,
}

impl OwnedPath {
    /// Takes the file that has this name now. The file must stay open as long as the value lives,
    /// so that no other file gets its inode number.
    #[must_use]
    pub(crate) fn new(path: &Path) -> OwnedPath {
        OwnedPath {
            path: path.into(),
            file: file_at(path),
        }
    }

    /// Whether the name still belongs to the file that we made.
    #[must_use]
    pub(crate) fn is_ours(&self) -> bool {
        self.file.is_some() && file_at(&self.path) == self.file
    }

    /// The name.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode number of the file itself; the target of a symbolic link is not ours.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let status = std::fs::symlink_metadata(path).ok()?;
    Some((status.dev(), status.ino()))
}
