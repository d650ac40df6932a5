//! Names in the file system that we made, and that may have become another's since.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that we made, by its name. Removed when dropped, unless the name is another file's by
/// then: somebody removed our directory, and the broker that came after us has made its own.
#[derive(Debug)]
pub(crate) struct OwnName {
    path: PathBuf,
    file: Option<(u64, u64)>,
}

impl OwnName {
    /// The file that has this name now. It must stay open as long as this lives, so that no other
    /// file gets its number.
    #[must_use]
    pub(crate) fn new(path: &Path) -> OwnName {
        OwnName {
            path: path.into(),
            file: file_at(path),
        }
    }

    /// The name still leads to the file that we made.
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

impl Drop for OwnName {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and number; what a link leads to is not ours.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let status = std::fs::symlink_metadata(path).ok()?;
    Some((status.dev(), status.ino()))
}
