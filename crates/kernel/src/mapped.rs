//! Names the very file that a process has mapped, not one that has its name by now.
//!
//! Best by `/proc/PID/map_files`, which names the file of a mapping, deleted or in a container
//! (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN); else by its path below the root of the process, where
//! another file may be by now. Source: kernel document `proc.rst` 1.1; `openat2(2)`.
//!
//! A file is first only named (`O_PATH`), so that no driver of a device and no pipe is ever opened: the owner
//! of the name may have put one there. The whole project opens files in this way if another user may name
//! them. For a mapped file, the list of mounts shows first that this asks no server ([`crate::mounts`]).

use crate::Error;
use crate::descriptors::path_of;
use crate::identity::as_user;
use crate::mounts::{Mounts, NotLocal, is_memory};
use crate::pin::FileMapping;
use crate::process::{Process, page_size, place, through};
use crate::smaps::{Addresses, Area, FileKey, each_mapping};
use plimsoll_unit::Bytes;
use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, Stat, fstat, major, minor, open, openat, openat2,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// File systems whose subvolumes each number their files anew. The kernel lists mappings with the device of
/// the whole file system, so a file and its copy in a snapshot look alike there, though each has pages of
/// its own.
const WITH_SUBVOLUMES: [&str; 2] = ["btrfs", "bcachefs"];

/// Whether several files of a file system of this kind may be listed with the same device and inode.
/// [`told_apart`] shows which of them is mapped.
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
        let mapping = format!("map_files/{:x}-{:x}", addresses.start, addresses.end);
        let descriptor = through(
            pid,
            &mapping,
            |_| false,
            |path| {
                let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                opened.map_err(|errno| Error::of_file("open", path, errno))
            },
        );
        match descriptor {
            Ok(descriptor) => Ok(Named {
                by_mapping: true,
                ..Named::local(descriptor, mounts)?
            }),
            Err(_) => {
                mounts.check_path(Path::new(name))?;
                Named::local(below(&place(pid, "root"), name)?, mounts)
            }
        }
    }

    /// Names what is at a path that the kernel makes up (`/proc/PID/fd/…`).
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn at(path: &Path) -> Result<Named, Errno> {
        Named::new(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Names what has this name in a folder. Follows no link: [`Named::checked`] refuses one.
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn within(folder: impl AsFd, name: &str) -> Result<Named, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Named::new(openat(folder, name, flags, Mode::empty())?)
    }

    /// Makes a file in a folder and opens it for writing. It is of this user and group where we may make such
    /// a file; nobody else may read it.
    ///
    /// # Errors
    /// The system's error; `EEXIST` if the name is taken, by whatever it is.
    pub fn make(folder: impl AsFd + Sync, name: &str, owner: (u32, u32)) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(as_user(owner.0, owner.1, || {
            openat(folder.as_fd(), name, flags, mode)
        })??)
    }

    /// Names what the kernel's link of a process leads to (`exe`), unless that may be behind a server. The
    /// mounts are read when the descriptor is open, which keeps its own: the number of one that is gone is
    /// given to another.
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn of_link(pid: i32, link: &str) -> Result<Named, NotNamed> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let descriptor = open(place(pid, link), flags, Mode::empty())?;
        let mounts = Process::open(pid).and_then(|process| Mounts::of(&process));
        Named::local(descriptor, &mounts.unwrap_or_default())
    }

    /// Names a memory file (`memfd_create`) at a path below `/proc/PID/fd`. Asks no other file system
    /// anything: one that does not answer may have a file there that is called like a memory file.
    ///
    /// # Errors
    /// The system's error; `ENODEV` if it is none.
    pub fn memory(path: &Path) -> Result<Named, Errno> {
        let descriptor = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if is_memory(&descriptor) {
            Named::new(descriptor)
        } else {
            Err(Errno::NODEV)
        }
    }

    /// The file that an `O_PATH` descriptor names, if this asks no server.
    fn local(descriptor: OwnedFd, mounts: &Mounts) -> Result<Named, NotNamed> {
        // A device number may have been given to another file system since the list of mounts was read.
        mounts.check_open(&descriptor)?;
        Ok(Named::new(descriptor)?)
    }

    /// The file that an `O_PATH` descriptor names.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(descriptor: OwnedFd) -> Result<Named, Errno> {
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

    /// This, if it is a regular file of this user of at most `most` bytes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for other kinds of files, `EPERM` for another user's, `EFBIG` for a longer one.
    pub fn checked(self, owner: u32, most: u64) -> Result<Named, Errno> {
        let size = u64::try_from(self.stat.st_size).unwrap_or(u64::MAX);
        match () {
            () if !self.is_regular() => Err(Errno::OPNOTSUPP),
            () if self.stat.st_uid != owner => Err(Errno::PERM),
            () if size > most => Err(Errno::FBIG),
            () => Ok(self),
        }
    }

    /// Its key in its file system. The kernel may list its mappings under another number: that of
    /// the lower file of an overlay, or the device of a whole Btrfs where this is its subvolume's.
    /// [`is_listed_as`] shows that.
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
    /// `EOPNOTSUPP` for what is no regular file, which is not opened; `EACCES` where we may not read it.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        match self.open_as(OFlags::RDONLY | OFlags::NOATIME) {
            Err(Errno::PERM) => self.open_as(OFlags::RDONLY),
            other => other,
        }
    }

    /// Opens it for reading and writing.
    ///
    /// # Errors
    /// As [`Named::open`].
    pub fn open_to_write(&self) -> Result<OwnedFd, Errno> {
        self.open_as(OFlags::RDWR)
    }

    fn open_as(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        if !self.is_regular() {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        open(path_of(&self.descriptor), flags, Mode::empty())
    }
}

/// Whether the kernel lists mappings of an open file with this device and inode. Maps a page of it for
/// that, and reads none.
pub fn is_listed_as(file: impl AsFd, key: FileKey) -> bool {
    FileMapping::new(file, 0, Bytes(page_size())).is_ok_and(|mapping| is_mapped_as(&mapping, key))
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
    use rustix::fs::{MemfdFlags, memfd_create};

    /// A pipe counts who opens it: a writer that waits for a reader goes on. An open of a terminal's driver
    /// would make another terminal.
    #[test]
    fn a_device_or_a_pipe_at_a_name_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        let has_reader = || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            open(&pipe, flags, Mode::empty()).err() != Some(Errno::NXIO)
        };
        let own = rustix::process::geteuid().as_raw();
        for path in [
            &pipe,
            Path::new("/dev/ptmx"),
            Path::new("/dev/null"),
            dir.path(),
        ] {
            let named = Named::at(path).unwrap();
            assert!(!named.is_regular() && !has_reader(), "{}", path.display());
            assert_eq!(named.open().err(), Some(Errno::OPNOTSUPP));
            assert_eq!(named.open_to_write().err(), Some(Errno::OPNOTSUPP));
            assert_eq!(named.checked(own, u64::MAX).err(), Some(Errno::OPNOTSUPP));
            assert_eq!(Named::memory(path).err(), Some(Errno::NODEV));
        }
        assert!(!has_reader());
    }

    #[test]
    fn what_lies_in_a_folder_is_named_and_made_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(dir.path()).unwrap();
        let own = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let within = |name| Named::within(&folder, name);
        assert_eq!(within("file").err(), Some(Errno::NOENT));
        drop(Named::make(&folder, "file", own).unwrap());
        assert_eq!(within("file").unwrap().stat().st_mode & 0o777, 0o600);
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let link = within("link").unwrap();
        assert_eq!(link.checked(own.0, 9).err(), Some(Errno::OPNOTSUPP));
        std::os::unix::fs::symlink("none", dir.path().join("dangling")).unwrap();
        for taken in ["file", "link", "dangling"] {
            let error = Named::make(&folder, taken, own).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert!(!dir.path().join("none").exists());
    }

    #[test]
    fn a_file_of_another_owner_or_length_is_not_the_one_that_was_meant() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text").unwrap();
        let own = rustix::process::geteuid().as_raw();
        let check = |owner, most| Named::at(file.path()).unwrap().checked(owner, most).err();
        assert_eq!(check(own, 4), None);
        assert_eq!(check(own, 3), Some(Errno::FBIG));
        assert_eq!(check(own + 1, 4), Some(Errno::PERM));
        assert_eq!(Named::memory(file.path()).err(), Some(Errno::NODEV));
        let memory = memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        let memory = Named::memory(&path_of(&memory)).unwrap();
        assert!(memory.is_regular() && memory.open_to_write().is_ok());
    }

    #[test]
    fn a_file_is_listed_as_itself_and_as_no_other() {
        let path = std::env::current_exe().unwrap();
        let mounts = Mounts::of(&Process::own().unwrap()).unwrap();
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
