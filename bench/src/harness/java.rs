//! Java programs of ours, compiled for a measurement.

use super::programs::Jvm;
use crate::report::results::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One with a compiler.
const COMPILER: Jvm = Jvm {
    version: 17,
    collector: "G1",
};

/// A folder of compiled classes, gone when dropped.
#[derive(Debug)]
pub struct Classes(PathBuf);

impl Classes {
    /// Compiles a source file, named from the root of the tree.
    ///
    /// # Errors
    /// A sentence on what is missing, or that it does not compile.
    pub fn of(source: &str) -> Result<Classes, String> {
        let folder =
            std::env::temp_dir().join(format!("plimsoll-bench-java-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let classes = Classes(folder);
        let java = PathBuf::from(COMPILER.java());
        let java = java
            .canonicalize()
            .map_err(|e| format!("{}: {e} (tools/setup.sh bench)", java.display()))?;
        let mut command = Command::new(java.with_file_name("javac"));
        command
            // The oldest version that is measured.
            .args(["--release", "11", "-d"])
            .arg(classes.folder())
            .arg(root().join(source));
        match command.status() {
            Ok(status) if status.success() => Ok(classes),
            Ok(status) => Err(format!("{command:?}: {status}")),
            Err(e) => Err(format!("cannot run {command:?}: {e}")),
        }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Classes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
