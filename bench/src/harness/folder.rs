//! A folder that lives as long as a measurement.

use crate::report::results::root;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A folder among the temporary files. It is removed when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes `plimsoll-bench-NAME-PID` among the temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(name: &str) -> Result<Folder> {
        let name = format!("plimsoll-bench-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        Ok(Folder(path))
    }

    /// Makes `.cache/NAME-PID`: on the disk of the checkout, where temporary files may be in memory.
    /// Removes those of this name that killed measurements left.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn on_disk(name: &str) -> Result<Folder> {
        let cache = root().join(".cache");
        let prefix = format!("{name}-");
        for entry in std::fs::read_dir(&cache).into_iter().flatten().flatten() {
            let of = entry.file_name();
            let of = of.to_str().and_then(|of| of.strip_prefix(&prefix));
            if of.is_some_and(is_gone) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let path = cache.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        Ok(Folder(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether this is the number of a process that is no more.
fn is_gone(pid: &str) -> bool {
    let number = pid.parse::<u32>().is_ok();
    number && !Path::new("/proc").join(pid).exists()
}
