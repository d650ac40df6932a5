//! Which files a process has open: `/proc/PID/fd`, and how many it may have. Source: kernel document
//! `proc.rst` 1.1; `proc_pid_fd(5)`, `getrlimit(2)`.

use crate::parse::{lines, number};
use crate::process::place;
use crate::reader::read_text;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Longest description of a descriptor that is read, bytes.
const MAX_INFO: usize = 64 << 10;

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The descriptor's place below `/proc`: what is looked at or opened there is that very file, or, once
    /// the descriptor is closed, whatever gets its number.
    pub path: PathBuf,
    /// The kernel's name for it; empty if it was closed meanwhile.
    pub target: PathBuf,
}

/// The open files of a process. Each is looked at when it is asked for.
///
/// # Errors
/// The system's error; `PermissionDenied` where we may not look into the process.
pub fn of(pid: impl Display) -> io::Result<impl Iterator<Item = Open>> {
    let entries = std::fs::read_dir(place(pid, "fd"))?;
    Ok(entries.flatten().map(|entry| {
        let path = entry.path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        Open { path, target }
    }))
}

/// The shared memory without a path (`memfd_create`) among the first descriptors of a process, as it was
/// named: its place below `/proc`, and its name. Looks at `most` descriptors. Another file may be called so:
/// [`crate::mapped::Named::memory`] tells.
///
/// # Errors
/// As [`of`].
pub fn memory(
    pid: impl Display,
    most: usize,
) -> io::Result<impl Iterator<Item = (PathBuf, OsString)>> {
    Ok(of(pid)?.take(most).filter_map(|Open { path, target }| {
        let name = target.into_os_string().into_encoded_bytes();
        let name = name.strip_prefix(b"/memfd:")?;
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        Some((path, OsString::from_vec(name.to_vec())))
    }))
}

/// The descriptors of this process, with the one that this takes to read them.
///
/// # Errors
/// The system's error.
pub fn own() -> io::Result<impl Iterator<Item = RawFd>> {
    let entries = std::fs::read_dir("/proc/thread-self/fd")?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// How many files this process may have open now.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(usize::MAX)
}

/// Raises the limit of this process's open files to the most that it is allowed. Programs that it starts
/// from here on inherit that.
///
/// # Errors
/// The system's error; the limit stays then.
pub fn raise_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// The number of the mount that an open descriptor's file was looked up on; `None` before Linux 3.15. Asks
/// nothing of its file system.
pub(crate) fn mount_of(file: &impl AsRawFd) -> Option<u64> {
    let path = format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd());
    let mut text = Vec::new();
    read_text(Path::new(&path), MAX_INFO, &mut text).ok()?;
    lines(&text).find_map(|line| number(line.strip_prefix(b"mnt_id:")?.trim_ascii()))
}

/// Which file an open descriptor is: device and inode. `None` if it is closed.
pub(crate) fn file_of(file: &impl AsFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(file).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// A path to exactly this open file of ours, even if its name belongs to another by now. By the thread that
/// uses it, because our first one may have ended.
pub fn path_of(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", file.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_limit_becomes_what_is_allowed() {
        raise_limit().unwrap();
        let allowed = getrlimit(Resource::Nofile).maximum;
        assert_eq!(limit() as u64, allowed.unwrap_or(u64::MAX));
    }

    #[test]
    fn memory_without_a_path_is_found_by_its_name() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let _memory = rustix::fs::memfd_create("plimsoll-test: memory", flags).unwrap();
        let named = |most| {
            let mut found = memory(std::process::id(), most).unwrap();
            found.any(|(_, name)| name == "plimsoll-test: memory")
        };
        assert!(named(4096) && !named(0));
    }

    #[test]
    fn an_open_file_is_found_by_its_process_and_read_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("open");
        std::fs::write(&path, "text").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let number = file.as_raw_fd();
        assert!(own().unwrap().any(|one| one == number));
        let found = of(std::process::id())
            .unwrap()
            .find(|open| open.target == path)
            .unwrap();
        assert!(found.path.ends_with(number.to_string()));
        std::fs::remove_file(&path).unwrap();
        for path in [found.path, path_of(&file)] {
            let mut text = String::new();
            let mut again = std::fs::File::open(path).unwrap();
            again.read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        assert!(of(0).is_err());
    }
}
