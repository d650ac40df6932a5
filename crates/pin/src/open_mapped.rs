//! Opening the file that a process has mapped, whatever is at its path now. One that only its path
//! names ([`plimsoll_kernel::mapped`]) is opened only if the process's user may read it, whatever we
//! may.

use crate::error::PinError;
use crate::filesystem::not_local;
use plimsoll_kernel::mapped::{Named, NotNamed};
use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::page_cache::tells_of;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::{Addresses, FileKey};
use plimsoll_kernel::timeout::{Missed, within};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// An open file, and whether it is known to be the one that was asked for.
#[derive(Debug)]
pub struct Opened {
    /// The file, open for reading.
    pub file: OwnedFd,
    /// Device and inode are those of the mapping. If not, the file system may still show them
    /// differently (overlay, Btrfs): [`is_mapped_as`](plimsoll_kernel::mapped::is_mapped_as) shows that.
    pub certain: bool,
    /// The page cache can be asked about it.
    pub tells_cached: bool,
}

/// How long opening a file may take. Looking up a path may lead to a server.
const PATIENCE: Duration = Duration::from_secs(2);

/// As [`open_mapped`], but does not wait longer than two seconds.
///
/// # Errors
/// As [`open_mapped`]; [`PinError::Open`] with `ETIMEDOUT`; [`PinError::Unasked`] when opening was not even
/// begun.
pub fn open_in_time(
    pid: i32,
    addresses: &Addresses,
    key: FileKey,
    path: &str,
) -> Result<Opened, PinError> {
    let (addresses, name) = (addresses.clone(), path.to_owned());
    let opened = within(PATIENCE, move || open_mapped(pid, &addresses, key, &name));
    opened.unwrap_or_else(|why| Err(not_opened(path, why)))
}

/// A file did not let itself be opened in time.
pub fn too_late(path: &str) -> PinError {
    failed(path, Errno::TIMEDOUT)
}

fn not_opened(path: &str, why: Missed) -> PinError {
    match why {
        Missed::Late => too_late(path),
        why => PinError::Unasked {
            path: path.into(),
            why,
        },
    }
}

/// Opens the file that a process has mapped at an address.
///
/// # Errors
/// [`PinError::Open`] without rights or when it is gone; [`PinError::NotAFile`];
/// [`PinError::FileSystem`].
pub fn open_mapped(
    pid: i32,
    addresses: &Addresses,
    key: FileKey,
    path: &str,
) -> Result<Opened, PinError> {
    let failed = |errno| failed(path, errno);
    let process = Process::open(pid)?;
    let named = match Named::of(pid, addresses, path, &Mounts::of(&process)?) {
        Ok(named) => named,
        Err(NotNamed::NotLocal(on)) => return Err(not_local(path.to_owned(), on)),
        Err(NotNamed::Away(errno)) => return Err(failed(errno)),
    };
    if !named.by_mapping && !may_read(&process, named.stat()) {
        return Err(failed(Errno::ACCESS));
    }
    if !named.is_regular() {
        return Err(PinError::NotAFile { path: path.into() });
    }
    let file = named.open().map_err(failed)?;
    Ok(Opened {
        certain: named.key() == key,
        tells_cached: tells_of(&file),
        file,
    })
}

/// Whether the user of a process may read a file, by its mode. Further groups of the user and access
/// lists do not count, so this refuses more than the kernel would, never less.
fn may_read(process: &Process, file: &Stat) -> bool {
    let Ok(ids) = process.ids() else {
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

#[cfg(test)]
mod tests {
    use super::{Missed, is_readable, not_opened};

    #[test]
    fn what_takes_too_long_is_told_apart() {
        let error = not_opened("/mnt/server/x", Missed::Late);
        assert!(error.is_late() && error.to_string().starts_with("/mnt/server/x: "));
        let unasked = not_opened("/x", Missed::Crowded);
        assert!(unasked.is_unasked() && !unasked.is_late());
        assert!(
            unasked
                .to_string()
                .starts_with("/x: not opened: 32 earlier reads")
        );
    }

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
