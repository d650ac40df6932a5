//! The directory of the page files. The user of a directory on `/dev/shm` holds a lock on it, and
//! so does a process that removes a killed broker's directory. So a restarted broker is never
//! robbed of the directory that it takes over. A directory beside the socket needs no lock: nobody
//! sweeps it, and others, who may open it, must not be able to hold it.

use crate::error::Error;
use crate::owned_path::OwnedPath;
use crate::server::listener::{advice, make_directory};
use plimsoll_wire::messages::Id;
use plimsoll_wire::page::PAGE_SIZE;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `f_type` of tmpfs (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Tries to lock a directory; one that is being removed is free again within this many tries.
const TRIES: u32 = 400;
const BETWEEN: Duration = Duration::from_millis(5);

/// The directory of the pages: beside the socket when that is in memory, otherwise on `/dev/shm`,
/// where a write needs no disk.
#[derive(Debug)]
pub struct PageDirectory {
    /// The directory. It is removed at the end only if `elsewhere` is set.
    name: ManuallyDrop<OwnedPath>,
    /// Keeps the inode number of the directory in use, and holds the lock.
    _fd: OwnedFd,
    /// Whether we made it outside the broker's own directory; then we remove it at the end.
    elsewhere: bool,
}

impl PageDirectory {
    /// Chooses and makes the directory, and removes pages of an earlier broker. Their readers see
    /// that the heartbeat is old and join again. `tag` distinguishes our directory from other
    /// brokers'.
    ///
    /// # Errors
    /// [`Error::Path`], [`Error::Unsafe`] when neither place can be used.
    pub fn open(beside: &Path, tag: u32, everybody: bool) -> Result<PageDirectory, Error> {
        let parent = beside.parent().unwrap_or(beside);
        let uid = rustix::process::geteuid().as_raw();
        let elsewhere = PathBuf::from(format!("/dev/shm/plimsoll-{uid}-{tag:08x}"));
        let use_elsewhere = !is_tmpfs(parent) && is_tmpfs(Path::new("/dev/shm"));
        if use_elsewhere && let Ok(fd) = take(&elsewhere, everybody) {
            return Ok(PageDirectory::held(&elsewhere, fd, true));
        }
        make_directory(beside, everybody)?;
        let what = "the directory of pages cannot be opened";
        let fd = open(beside).map_err(|errno| Error::path(beside, advice(errno, what), errno))?;
        Ok(PageDirectory::held(beside, fd, false))
    }

    fn held(path: &Path, fd: OwnedFd, elsewhere: bool) -> PageDirectory {
        clear(path);
        PageDirectory {
            name: ManuallyDrop::new(OwnedPath::new(path)),
            _fd: fd,
            elsewhere,
        }
    }

    /// Whether it is still there: nobody removed or replaced it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name.is_ours()
    }

    /// The path of a principal's page.
    #[must_use]
    pub fn path_of(&self, id: Id) -> PathBuf {
        self.path().join(id.to_string())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.name.path()
    }
}

impl Drop for PageDirectory {
    fn drop(&mut self) {
        if self.elsewhere && self.is_ours() {
            clear(self.path());
            let _ = std::fs::remove_dir(self.path());
        }
    }
}

/// Removes a directory of pages, unless a live broker uses it.
pub fn remove_unused(path: &Path) -> bool {
    let Ok(_lock) = hold(path) else {
        return false;
    };
    clear(path);
    std::fs::remove_dir(path).is_ok()
}

/// Makes and locks the directory. If another process is removing it, it is made again.
fn take(path: &Path, everybody: bool) -> Result<OwnedFd, Error> {
    let mut tries = 0..TRIES;
    loop {
        let again = match make_directory(path, everybody).map(|()| hold(path)) {
            Ok(Ok(fd)) => return Ok(fd),
            Ok(Err(errno)) => {
                let what = "the directory of pages cannot be locked";
                let passing = matches!(errno, Errno::AGAIN | Errno::NOENT);
                (passing, Error::path(path, advice(errno, what), errno))
            }
            // It was made, and removed before it was opened.
            Err(error) => (path.symlink_metadata().is_err(), error),
        };
        match again {
            (true, _) if tries.next().is_some() => std::thread::sleep(BETWEEN),
            (_, error) => return Err(error),
        }
    }
}

/// Locks the directory with this name until the descriptor is closed. `AGAIN` when another process
/// holds it, `NOENT` when it is gone or was removed before we had the lock.
fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    let fd = open(path)?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    let held = rustix::fs::fstat(&fd)?;
    let named = rustix::fs::lstat(path)?;
    if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) {
        Ok(fd)
    } else {
        Err(Errno::NOENT)
    }
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty())
}

fn is_tmpfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC)
}

/// Removes files with numeric names that are no longer than a page: pages and half-made ones.
fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_suffix(".new").unwrap_or(&name);
        let small = |file: std::fs::Metadata| file.is_file() && file.len() <= PAGE_SIZE as u64;
        if number.parse::<Id>().is_ok() && entry.metadata().is_ok_and(small) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[test]
    fn what_is_used_is_not_removed_and_what_is_left_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pages");
        let used = take(&path, false).unwrap();
        std::fs::write(path.join("7"), "").unwrap();
        assert!(!remove_unused(&path));
        assert!(path.join("7").exists());
        drop(used);
        assert!(remove_unused(&path));
        assert!(!path.exists());
        assert!(!remove_unused(&path));
    }

    /// Takes it. A taker gives up where a process that removes it gets no processor for seconds.
    fn patiently(path: &Path) -> Result<OwnedFd, Error> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match take(path, false) {
                Err(_) if Instant::now() < until => {}
                held => return held,
            }
        }
    }

    #[test]
    fn who_comes_back_while_it_is_removed_has_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pages");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        remove_unused(&path);
                        // The taker looks only now and then.
                        std::thread::sleep(Duration::from_micros(300));
                    }
                });
            }
            let all_have_it = (0..200).all(|_| {
                let held = patiently(&path);
                let made = std::fs::write(path.join("1"), "");
                std::thread::yield_now();
                held.is_ok() && made.is_ok() && path.join("1").exists()
            });
            done.store(true, Ordering::Relaxed);
            assert!(all_have_it);
        });
    }
}
