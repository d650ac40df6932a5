//! Opens the very file that a process has mapped, not one that has its name by now.

use crate::sight::Sight;
use plimsoll_kernel::smaps::{Area, FileKey};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A mapped file.
pub(crate) struct Opened {
    /// For reading.
    pub(crate) descriptor: OwnedFd,
    /// What its file system calls it. The kernel may count its pages under another number, that of
    /// the lower file of an overlay.
    pub(crate) key: FileKey,
}

/// Opens the file of a mapping: by the mapping itself, which needs rights, else by its path below the
/// root of the process. A file at that path that is not the mapped one is none.
pub(crate) fn open(sight: &Sight, area: &Area) -> Option<Opened> {
    let (pid, at) = (sight.pid, &area.addresses);
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", at.start, at.end);
    let by_mapping = rustix::fs::open(&link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let is_certain = by_mapping.is_ok();
    let looked = by_mapping
        .or_else(|_| match area.name.starts_with("/memfd:") {
            true => by_descriptor(pid, area.file),
            false => below(&sight.root, &area.name),
        })
        .ok()?;
    // Only what is certainly a regular file is opened: opening others may wait or have effects.
    let stat = rustix::fs::fstat(&looked).ok()?;
    let key = key(&stat);
    let is_it = is_certain || key == area.file;
    if !is_it || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    Some(Opened {
        descriptor: reopen(&looked)?,
        key,
    })
}

/// Looks a path up below a root, without leaving it.
fn below(root: &Path, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, name, flags, Mode::empty(), resolve)
}

/// Most descriptors of a process that are looked at for one file.
const MAX_DESCRIPTORS: usize = 4096;

/// Looks up shared memory without a path, which the process itself has open.
fn by_descriptor(pid: i32, file: FileKey) -> rustix::io::Result<OwnedFd> {
    let none = rustix::io::Errno::NOENT;
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(|_| none)?;
    for entry in entries.flatten().take(MAX_DESCRIPTORS) {
        let path = entry.path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        if !target
            .as_os_str()
            .as_encoded_bytes()
            .starts_with(b"/memfd:")
        {
            continue;
        }
        let looked = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if key(&rustix::fs::fstat(&looked)?) == file {
            return Ok(looked);
        }
    }
    Err(none)
}

fn key(stat: &rustix::fs::Stat) -> FileKey {
    FileKey {
        major: rustix::fs::major(stat.st_dev),
        minor: rustix::fs::minor(stat.st_dev),
        inode: stat.st_ino,
    }
}

/// Opens for reading what was only looked up.
fn reopen(looked: &OwnedFd) -> Option<OwnedFd> {
    let looked: BorrowedFd<'_> = looked.as_fd();
    let own = format!("/proc/self/fd/{}", looked.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(&own, flags, Mode::empty()).ok()
}
