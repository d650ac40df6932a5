//! Names the very file that a process has mapped, not one that has its name by now.
//!
//! Best by `/proc/PID/map_files`, which names the file of a mapping, deleted or in a container
//! (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN); else by its path below the root of the process, where
//! another file may be by now. Source: kernel document `proc.rst` 1.1; `openat2(2)`.
//!
//! A file is first only named (`O_PATH`), so that no driver of a device and no pipe is ever opened.

use crate::Error;
use crate::descriptors::path_of;
use crate::pin::FileMapping;
use crate::process::{Process, page_size, place, through};
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
/// `None` where the file cannot be named, or another one has its path. May wait for a server that lies on
/// the way to the path.
pub fn told_apart(pid: i32, area: &Area) -> Option<FileKey> {
    let root = place(pid, "root");
    let named = Named::of(pid, &area.addresses, &root, &area.name).ok()?;
    Some(named.key()).filter(|key| key.inode == area.file.inode)
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
    /// Names the file of a mapping. `root` is where the process's root is seen from here
    /// (`/proc/PID/root`), `path` the name of the mapping. Links are followed inside of that root
    /// only.
    ///
    /// # Errors
    /// `EACCES` without rights; `ENOENT` when there is no such file by now.
    pub fn of(pid: i32, addresses: &Addresses, root: &Path, path: &str) -> Result<Named, Errno> {
        let mapping = format!("map_files/{:x}-{:x}", addresses.start, addresses.end);
        let named = through(pid, &mapping, |_| false, |path| {
            Named::at(path).map_err(|errno| Error::of_file("open", path, errno))
        });
        match named {
            Ok(named) => Ok(Named {
                by_mapping: true,
                ..named
            }),
            Err(_) => Named::new(below(root, path)?),
        }
    }

    /// Names what is at a path.
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn at(path: &Path) -> Result<Named, Errno> {
        Named::new(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn new(descriptor: OwnedFd) -> Result<Named, Errno> {
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
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(&root, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_listed_as_itself_and_as_no_other() {
        let path = std::env::current_exe().unwrap();
        let named = Named::at(&path).unwrap();
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
                apart = told_apart(std::process::id() as i32, area);
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
