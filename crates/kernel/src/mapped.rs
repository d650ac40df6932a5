//! Names the very file that a process has mapped, not one that has its name by now.
//!
//! Best by `/proc/PID/map_files`, which names the file of a mapping, deleted or in a container
//! (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN); else by its path below the root of the process, where
//! another file may be by now. Source: kernel document `proc.rst` 1.1; `openat2(2)`.
//!
//! A file is first only named (`O_PATH`), so that no driver of a device and no pipe is ever opened. Before
//! that, and before it is asked anything, the list of mounts has told that no server is asked then
//! ([`crate::mounts`]).

use crate::descriptors::path_of;
use crate::mounts::{Mounts, NotLocal};
use crate::pin::FileMapping;
use crate::process::{Process, page_size, proc_path};
use crate::smaps::{Addresses, Area, FileKey, each_mapping};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, major, minor, open, openat2};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// File systems whose subvolumes each number their files anew. The kernel lists mappings with the device of
/// the whole file system, so a file and its copy in a snapshot look alike there, though each has pages of
/// its own.
const WITH_SUBVOLUMES: [&str; 2] = ["btrfs", "bcachefs"];

/// Whether several files of a file system of this kind may be listed with the same device and inode.
/// [`told_apart`] tells which of them is mapped.
pub fn lists_alike(kind: &str) -> bool {
    WITH_SUBVOLUMES.contains(&kind)
}

/// Device and inode of the file of a mapping as `stat(2)` gives them, which differ between subvolumes.
/// `None` where the file cannot be named, or another one has its path.
pub fn told_apart(pid: i32, area: &Area, mounts: &Mounts) -> Option<FileKey> {
    mounts
        .check_device((area.file.major, area.file.minor))
        .ok()?;
    let named = Named::of(pid, &area.addresses, &area.name, mounts).ok()?;
    Some(named.key()).filter(|key| key.inode == area.file.inode)
}

/// Why a file is not named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNamed {
    /// It may be behind a server.
    #[error("it is on {0}, which may be behind a server that does not answer")]
    NotLocal(#[from] NotLocal),
    /// It cannot be found.
    #[error(transparent)]
    Away(#[from] Errno),
}

/// A file that is named but not open.
#[derive(Debug)]
pub struct Named {
    descriptor: OwnedFd,
    stat: Stat,
    /// The mapping itself named it, not a path.
    pub by_mapping: bool,
}

impl Named {
    /// Names the file of a mapping, by the mounts that the process sees. Network file systems ask their
    /// server even then: so whoever calls has checked the device ([`Mounts::check_device`]). `name` is looked
    /// up below the process's root, and leads through no link: the kernel's names of mappings have none.
    ///
    /// # Errors
    /// [`NotNamed::NotLocal`]; `EACCES` without rights; `ENOENT` when there is no such file by now.
    pub fn of(
        pid: i32,
        addresses: &Addresses,
        name: &str,
        mounts: &Mounts,
    ) -> Result<Named, NotNamed> {
        let (start, end) = (addresses.start, addresses.end);
        let mapping = proc_path(pid, &format!("map_files/{start:x}-{end:x}"));
        match open(&mapping, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(descriptor) => Ok(Named {
                by_mapping: true,
                ..Named::new(descriptor, mounts)?
            }),
            Err(_) => {
                mounts.check_path(Path::new(name))?;
                Named::new(below(&proc_path(pid, "root"), name)?, mounts)
            }
        }
    }

    /// Names what is at a path that the kernel makes up (`/proc/PID/fd/…`).
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn at(path: &Path, mounts: &Mounts) -> Result<Named, NotNamed> {
        let descriptor = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Named::new(descriptor, mounts)
    }

    fn new(descriptor: OwnedFd, mounts: &Mounts) -> Result<Named, NotNamed> {
        // A device number may have been given to another file system since the list of mounts was read.
        mounts.check_open(&descriptor)?;
        Ok(Named {
            stat: fstat(&descriptor)?,
            descriptor,
            by_mapping: false,
        })
    }

    /// Owner, group and mode.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether it is a regular file: opening others may wait or have effects.
    pub fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// What its file system calls it. The kernel may list its mappings under another number: that of
    /// the lower file of an overlay, or the device of a whole Btrfs where this is its subvolume's.
    /// [`is_listed_as`] tells.
    pub fn key(&self) -> FileKey {
        FileKey {
            major: major(self.stat.st_dev),
            minor: minor(self.stat.st_dev),
            inode: self.stat.st_ino,
        }
    }

    /// Opens it for reading and mapping. Changes no access time where we may leave it as it is.
    ///
    /// # Errors
    /// `EACCES` where we may not read it.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let path = path_of(&self.descriptor);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        match open(&path, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => open(&path, flags, Mode::empty()),
            other => other,
        }
    }
}

/// Whether the kernel lists mappings of an open file with this device and inode. Maps a page of it for
/// that, and reads none.
pub fn is_listed_as(file: impl AsFd, key: FileKey) -> bool {
    FileMapping::new(file, 0, page_size()).is_ok_and(|mapping| is_mapped_as(&mapping, key))
}

/// Whether the kernel lists a mapping of ours with this device and inode.
pub fn is_mapped_as(mapping: &FileMapping, key: FileKey) -> bool {
    let at = mapping.addresses().start;
    let mut is = false;
    let asked = Process::own().and_then(|own| {
        each_mapping(&own, &mut |area| {
            let here = area.addresses.contains(&at);
            is |= here && area.file == key;
            !here
        })
    });
    asked.is_ok() && is
}

/// Looks a path up below a root, without leaving it.
fn below(root: &Path, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    openat2(&root, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_listed_as_itself_and_as_no_other() {
        let path = std::env::current_exe().unwrap();
        let mounts = Mounts::of(&Process::own().unwrap()).unwrap();
        let named = Named::at(&path, &mounts).unwrap();
        let mut listed = None;
        each_mapping(&Process::own().unwrap(), &mut |area| {
            if Path::new(&area.name) == path {
                listed = Some(area.file);
            }
            true
        })
        .unwrap();
        let listed = listed.expect("our executable is mapped");
        let file = named.open().unwrap();
        assert!(is_listed_as(&file, listed));
        let mut apart = None;
        each_mapping(&Process::own().unwrap(), &mut |area| {
            if Path::new(&area.name) == path {
                apart = told_apart(std::process::id() as i32, area, &mounts);
            }
            true
        })
        .unwrap();
        assert_eq!(apart, Some(named.key()));
        let other = FileKey {
            inode: listed.inode + 1,
            ..listed
        };
        assert!(!is_listed_as(&file, other));
        let (pipe, _end) = rustix::pipe::pipe().unwrap();
        assert!(!is_listed_as(pipe, listed));
    }
}
