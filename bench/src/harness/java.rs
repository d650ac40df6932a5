//! Java programs of ours, compiled for a measurement.

use super::folder::Folder;
use super::programs::Jvm;
use crate::report::results::root;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The JDK whose compiler is used.
const COMPILER: Jvm = Jvm {
    version: 17,
    collector: "G1",
};

/// A folder of compiled classes. It is removed when this is dropped.
#[derive(Debug)]
pub struct Classes(Folder);

impl Classes {
    /// Compiles a source file. Its path is relative to the root of the tree.
    ///
    /// # Errors
    /// When the JDK or the source is missing, or the source does not compile.
    pub fn of(source: &str) -> Result<Classes> {
        Classes::with(source, "")
    }

    /// As [`Classes::of`], with the libraries of a class path. Sources in `bench/programs` are found.
    ///
    /// # Errors
    /// As [`Classes::of`].
    pub fn with(source: &str, libraries: &str) -> Result<Classes> {
        // The oldest version that is measured is Java 11.
        Classes::for_version(11, source, libraries)
    }

    /// As [`Classes::with`], for virtual machines from this version on.
    ///
    /// # Errors
    /// As [`Classes::of`].
    pub fn for_version(version: u32, source: &str, libraries: &str) -> Result<Classes> {
        let classes = Classes(Folder::new("java")?);
        let java = PathBuf::from(COMPILER.java());
        let java = java.canonicalize().map_err(missing(&java))?;
        let mut command = Command::new(java.with_file_name("javac"));
        command
            .args(["--release", &version.to_string(), "-d"])
            .arg(classes.folder())
            .arg("-sourcepath")
            .arg(root().join("bench/programs"))
            .args(["-classpath", libraries])
            .arg(root().join(source));
        let status = command.status().map_err(Error::start(&command))?;
        if status.success() {
            Ok(classes)
        } else {
            Err(Error::program(format!("{command:?}"), status.to_string()))
        }
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// Reads the files that virtual machines map, so that no measured cgroup is charged for them. The kernel
/// charges a page of a file to the cgroup that reads it first; without this, that would be left to chance.
///
/// # Errors
/// When a virtual machine is missing, or its files cannot be read.
pub fn read_ahead(jvms: impl IntoIterator<Item = Jvm>) -> Result<()> {
    for jvm in jvms {
        let java = PathBuf::from(jvm.java());
        let real = java.canonicalize().map_err(missing(&java))?;
        let home = real.parent().and_then(Path::parent);
        let lib = home.ok_or_else(|| missing(&java)("no home above it"))?;
        let lib = lib.join("lib");
        for folder in [lib.join("server"), lib] {
            read_files(&folder).map_err(Error::file("read", &folder))?;
        }
    }
    Ok(())
}

fn missing<E: ToString>(java: &Path) -> impl FnOnce(E) -> Error {
    let path = java.to_owned();
    move |why| Error::Missing {
        path,
        why: why.to_string(),
    }
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
