//! How much of mapped files is in the page cache, whether this process maps it or not: by
//! `cachestat` on the files themselves, never by touching them.

use crate::parts::Part;
use crate::sight::Sight;
use plimsoll_kernel::page_cache;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Most files that are opened.
const MAX_FILES: usize = 8192;

/// What is known of the part of a file that a part of a mapping shows, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// In the page cache.
    pub cached: u64,
    /// Left it so recently that reading it again is a refault; 0 of tmpfs.
    pub evicted: u64,
    /// Of tmpfs: in swap.
    pub swapped: u64,
}

/// Why some files could not be asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Bytes of mappings whose file could not be opened, or was not the mapped one.
    pub closed: u64,
    /// Bytes of mappings of files that the kernel tells only their owner about.
    pub denied: u64,
    /// Whether this kernel has no `cachestat`.
    pub unsupported: bool,
    /// Whether the time was up before all files were asked.
    pub late: bool,
}

/// Asks about each part; the result has one entry a part, `None` for what is not of a file or cannot
/// be told. Ends soon after `deadline`, unless a file system does not answer.
pub fn look(
    sight: &Sight,
    parts: &[Part],
    deadline: Option<Instant>,
) -> (Vec<Option<Cache>>, Untold) {
    let mut caches = vec![None; parts.len()];
    let mut untold = Untold::default();
    let mut files: HashMap<FileKey, Option<File>> = HashMap::new();
    for (part, slot) in parts.iter().zip(&mut caches) {
        let area = &sight.mappings[part.mapping];
        if !has_file(area) {
            continue;
        }
        if deadline.is_some_and(|end| Instant::now() >= end) {
            untold.late = true;
            break;
        }
        if files.len() >= MAX_FILES && !files.contains_key(&area.file) {
            files.clear();
        }
        let bytes = part.addresses.end - part.addresses.start;
        let file = files
            .entry(area.file)
            .or_insert_with(|| File::open(sight, area));
        match file.as_ref().map(|file| file.ask(area, &part.addresses)) {
            Some(Ok(cache)) => *slot = Some(cache),
            Some(Err(error)) if error.is_denied() => untold.denied += bytes,
            Some(Err(error)) if error.is_absent() => {
                untold.unsupported = true;
                break;
            }
            _ => untold.closed += bytes,
        }
    }
    (caches, untold)
}

/// Whether a mapping shows a file that can have pages in the cache.
fn has_file(area: &Area) -> bool {
    let none = ["/anon_hugepage", "/["];
    area.file.inode != 0
        && area.name.starts_with('/')
        && !none.iter().any(|start| area.name.starts_with(start))
}

/// A mapped file, open.
struct File {
    descriptor: OwnedFd,
    path: PathBuf,
    tmpfs: bool,
}

/// From `linux/magic.h`.
const TMPFS_MAGIC: u64 = 0x0102_1994;

impl File {
    /// Opens the file of a mapping: by the mapping itself, which needs rights, else by its path below
    /// the root of the process. A file at that path that is not the mapped one is none.
    fn open(sight: &Sight, area: &Area) -> Option<File> {
        let (pid, at) = (sight.pid, &area.addresses);
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", at.start, at.end);
        let link = Path::new(&link);
        let looked = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .or_else(|_| match area.name.starts_with("/memfd:") {
                true => by_descriptor(pid, area.file),
                false => below(&sight.root, &area.name),
            })
            .ok()?;
        // Only what is certainly a regular file is opened: opening others may wait or have effects.
        let stat = rustix::fs::fstat(&looked).ok()?;
        if key(&stat) != area.file || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        {
            return None;
        }
        let descriptor = reopen(&looked)?;
        let tmpfs = rustix::fs::fstatfs(&descriptor)
            .is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(TMPFS_MAGIC));
        Some(File {
            descriptor,
            path: PathBuf::from(&area.name),
            tmpfs,
        })
    }

    /// Asks about what a part of a mapping shows, in whole pages: each page belongs to the part in
    /// which it begins.
    fn ask(&self, area: &Area, part: &Addresses) -> plimsoll_kernel::Result<Cache> {
        let page = page_size();
        let offset = |address: u64| {
            let inside = (address - area.addresses.start).next_multiple_of(page);
            area.offset.saturating_add(inside)
        };
        let range = offset(part.start)..offset(part.end);
        let found = page_cache::of(&self.descriptor, &self.path, range)?;
        Ok(Cache {
            cached: found.cached,
            evicted: if self.tmpfs {
                0
            } else {
                found.recently_evicted
            },
            swapped: if self.tmpfs { found.evicted } else { 0 },
        })
    }
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
    use std::os::fd::{AsFd, AsRawFd};
    let looked: BorrowedFd<'_> = looked.as_fd();
    let own = format!("/proc/self/fd/{}", looked.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(&own, flags, Mode::empty()).ok()
}
