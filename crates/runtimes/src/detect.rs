//! Which runtime a program has: from its command line before it starts, from `/proc` while it runs.

use crate::setting::Setting;
use crate::{elf, libgc};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most that is read of a process's memory map, bytes.
const MAX_MAPS: u64 = 16 << 20;
/// Bytes of a file `release` that are read at the most.
const MAX_RELEASE: u64 = 64 << 10;

/// Bits of a file's mode.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// What manages the memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// A Java virtual machine with `libjvm.so`.
    HotSpot,
    /// The Boehm-Demers-Weiser collector (`libgc.so.1`).
    LibGc,
    /// Nothing that can be steered from outside.
    Other,
}

impl Runtime {
    /// The adapter's name as `Register` takes it; `None` for a passive program.
    pub fn adapter(self) -> Option<&'static str> {
        match self {
            Runtime::HotSpot => Some("hotspot"),
            Runtime::LibGc => Some("libgc"),
            Runtime::Other => None,
        }
    }
}

/// The runtime of a command line that is to be started. Scripts and shells are [`Runtime::Other`]: what they
/// start is found when it runs.
pub fn of_command(argv: &[OsString], setting: &Setting<'_>) -> Runtime {
    let Some(real) = executable(argv, setting) else {
        return Runtime::Other;
    };
    if real.file_name() == Some(OsStr::new("java")) && is_java(&real) {
        Runtime::HotSpot
    } else if elf::needs(&real, libgc::NEEDED.as_bytes()) {
        Runtime::LibGc
    } else {
        Runtime::Other
    }
}

/// The file that a command line starts.
pub(crate) fn executable(argv: &[OsString], setting: &Setting<'_>) -> Option<PathBuf> {
    let path = program(argv.first()?, setting)?;
    Some(std::fs::canonicalize(&path).unwrap_or(path))
}

/// Whether the program has another user or group than who starts it: then the loader takes no libraries from its
/// environment.
pub(crate) fn is_privileged(executable: &Path) -> bool {
    let Ok(file) = std::fs::metadata(executable) else {
        return false;
    };
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    file.mode() & SET_USER != 0 && file.uid() != user.as_raw()
        || file.mode() & SET_GROUP != 0 && file.gid() != group.as_raw()
}

/// A launcher has the machine beside it: `bin/java`, `lib/server/libjvm.so` (`jre/lib/amd64/server` in Java 8).
fn is_java(real: &Path) -> bool {
    let Some(home) = real.parent().and_then(Path::parent) else {
        return false;
    };
    let places = [
        "lib/server/libjvm.so",
        "jre/lib/amd64/server/libjvm.so",
        "lib/amd64/server/libjvm.so",
        "jre/lib/aarch64/server/libjvm.so",
        "lib/aarch64/server/libjvm.so",
    ];
    places.iter().any(|place| home.join(place).is_file())
}

/// The feature version of the Java virtual machine that a command line starts, by the file `release` of its installation
/// (`JAVA_VERSION="17.0.15"`, `"1.8.0_402"`).
pub fn java_version(argv: &[OsString], setting: &Setting<'_>) -> Option<u32> {
    let path = program(argv.first()?, setting)?;
    let real = std::fs::canonicalize(path).ok()?;
    let home = real.parent()?.parent()?;
    // The launcher of Java 8 may be in a `jre` below it.
    let release = [home, home.parent()?].map(|place| place.join("release"));
    let file = release
        .iter()
        .find_map(|path| std::fs::File::open(path).ok())?;
    let mut text = String::new();
    file.take(MAX_RELEASE).read_to_string(&mut text).ok()?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = version.strip_prefix("1.").unwrap_or(version);
    version
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Where a program lies: as named when the name has a slash, else in `PATH`.
fn program(name: &OsStr, setting: &Setting<'_>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(setting.folder.join(name));
    }
    let path = (setting.variables)("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| setting.folder.join(dir).join(name))
        .find(|p| p.is_file())
}

/// The runtime of a running process, by what it has mapped.
pub fn of_process(pid: u32) -> Runtime {
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/maps")) else {
        return Runtime::Other;
    };
    let mut maps = BufReader::with_capacity(64 << 10, file.take(MAX_MAPS));
    let mut line = Vec::new();
    let mut found = Runtime::Other;
    while maps.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        let path = text.trim_end().trim_end_matches(" (deleted)");
        match path.rsplit('/').next() {
            Some("libjvm.so") => return Runtime::HotSpot,
            Some(name) if is_libgc(name) => found = Runtime::LibGc,
            _ => {}
        }
        line.clear();
    }
    found
}

/// The system's, by any version; and the drop-in, as installed and as built.
fn is_libgc(name: &str) -> bool {
    name == "libgc.so" || name.starts_with("libgc.so.") || name == libgc::BUILT
}
