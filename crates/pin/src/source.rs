//! Opening the file that a process has mapped, whatever is at its path now.
//!
//! Best by `/proc/PID/map_files`, which names the very file of a mapping, deleted or in a container
//! (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN); else by its path below the process's root, where
//! another file may be by now. That one is opened only if the process's user may read it, whatever we
//! may. A file is first only named (`O_PATH`), so that no driver of a device and no pipe is ever
//! opened.

use crate::error::PinError;
use plimsoll_kernel::pin::{FileMapping, open_named};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::{Addresses, FileKey, each_mapping};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, major, minor, open, openat2};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// An open file, and whether it is known to be the one that was asked for.
#[derive(Debug)]
pub struct Opened {
    /// The file, open for reading.
    pub file: OwnedFd,
    /// Device and inode are those of the mapping. If not, the file system may still show them
    /// differently (overlay, btrfs): [`is_mapped_as`] tells.
    pub certain: bool,
}

/// Opens the file that a process has mapped at an address.
///
/// # Errors
/// [`PinError::Open`] without rights or when it is gone; [`PinError::NotAFile`].
pub fn open_mapped(
    pid: i32,
    addresses: &Addresses,
    key: FileKey,
    path: &str,
) -> Result<Opened, PinError> {
    let by_mapping = format!(
        "/proc/{pid}/map_files/{:x}-{:x}",
        addresses.start, addresses.end
    );
    let (named, by_path) = match open(&by_mapping, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(named) => (named, false),
        Err(_) => (
            below_root(pid, path).map_err(|errno| failed(path, errno))?,
            true,
        ),
    };
    let stat = fstat(&named).map_err(|errno| failed(path, errno))?;
    if by_path && !may_read(pid, &stat) {
        return Err(failed(path, Errno::ACCESS));
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PinError::NotAFile { path: path.into() });
    }
    let device = (major(stat.st_dev), minor(stat.st_dev));
    let file = open_named(&named).map_err(|source| PinError::Open {
        path: path.into(),
        source,
    })?;
    Ok(Opened {
        file,
        certain: stat.st_ino == key.inode && device == (key.major, key.minor),
    })
}

/// Names the file at a path below the root directory of a process. Links are followed inside of
/// that root only.
fn below_root(pid: i32, path: &str) -> Result<OwnedFd, Errno> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(format!("/proc/{pid}/root"), directory, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(&root, path, flags, Mode::empty(), resolve)
}

/// Whether the user of a process may read a file, by its mode. Further groups of the user and access
/// lists do not count, so this refuses more than the kernel would, never less.
fn may_read(pid: i32, file: &Stat) -> bool {
    let Ok(ids) = Process::open(pid).and_then(|process| process.ids()) else {
        return false;
    };
    is_readable(ids.uid, ids.gid, file.st_uid, file.st_gid, file.st_mode)
}

fn is_readable(uid: u32, gid: u32, owner: u32, group: u32, mode: u32) -> bool {
    let bit = if uid == owner {
        0o400
    } else if gid == group {
        0o040
    } else {
        0o004
    };
    uid == 0 || mode & bit != 0
}

fn failed(path: &str, errno: Errno) -> PinError {
    PinError::Open {
        path: path.into(),
        source: errno.into(),
    }
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

#[cfg(test)]
mod tests {
    use super::is_readable;

    #[test]
    fn only_what_its_user_may_read_is_opened_by_path() {
        let secret = |uid, gid| is_readable(uid, gid, 0, 42, 0o640);
        assert!(secret(0, 0) && secret(7, 42) && !secret(7, 7));
        assert!(is_readable(7, 7, 0, 0, 0o644));
        assert!(
            !is_readable(7, 7, 7, 7, 0o044),
            "the owner's bits count for the owner"
        );
    }
}
