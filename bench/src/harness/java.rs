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

/// Reads what virtual machines map of their own files, so that the group that is measured is not
/// charged for it: the kernel charges a file's pages to whoever reads it first, which is chance
/// otherwise.
///
/// # Errors
/// A sentence on what cannot be read.
pub fn read_ahead(jvms: impl IntoIterator<Item = Jvm>) -> Result<(), String> {
    for jvm in jvms {
        let java = PathBuf::from(jvm.java());
        let cannot =
            |e: &dyn std::fmt::Display| format!("{}: {e} (tools/setup.sh bench)", java.display());
        let real = java.canonicalize().map_err(|e| cannot(&e))?;
        let home = real.parent().and_then(Path::parent);
        let lib = home.ok_or_else(|| cannot(&"no home above it"))?.join("lib");
        for folder in [lib.join("server"), lib] {
            read_files(&folder).map_err(|e| cannot(&e))?;
        }
    }
    Ok(())
}

fn read_files(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
        }
    }
    Ok(())
}

impl Drop for Classes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
