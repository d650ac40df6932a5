//! Puts the agent's library where a machine can read it: where it is, if the machine sees the same
//! files; else as a copy in a private directory below the machine's root, which is removed once the
//! machine has mapped it.

use crate::process::Process;
use plimsoll_kernel::identity::as_user;
use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The agent's file, in a build tree and where it is installed.
pub const LIBRARY: &str = "libplimsoll_jvm.so";
/// Directories of the machine that are tried, in this order.
const DIRECTORIES: [&str; 3] = ["tmp", "var/tmp", "dev/shm"];
/// Bytes of the library at most; a build for debugging has 11 MiB.
const MAX_LIBRARY: u64 = 256 << 20;

/// Why the library cannot be placed.
#[derive(Debug)]
pub(super) enum Unplaced {
    /// Our own library cannot be read.
    Library(PathBuf, std::io::Error),
    /// No directory of the machine takes it; the last error.
    Nowhere(Errno),
    /// All directories that take it forbid to execute from there.
    NoExec,
}

/// A library that a machine can read. A copy is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Placed {
    /// Its path as the machine sees it.
    path: PathBuf,
    copy: Option<Copy>,
}

/// A copy in a directory of its own.
#[derive(Debug)]
struct Copy {
    /// The directory of the machine in which ours is.
    above: OwnedFd,
    /// The name of ours there.
    name: String,
    /// User and group of the machine, to whom it belongs.
    owner: (u32, u32),
}

impl Placed {
    /// Its path, as the machine sees it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Places the library for a machine of this effective user and group.
pub(super) fn place(
    process: &Process,
    library: &Path,
    owner: (u32, u32),
) -> Result<Placed, Unplaced> {
    let unreadable = |error| Unplaced::Library(library.to_owned(), error);
    let library = library.canonicalize().map_err(unreadable)?;
    if process.sees_our_files() && may_read(&library, owner) {
        return Ok(Placed {
            path: library,
            copy: None,
        });
    }
    let size = std::fs::metadata(&library).map_err(unreadable)?.len();
    if size > MAX_LIBRARY {
        let error = std::io::Error::other("it is too large for our library");
        return Err(unreadable(error));
    }
    let content = std::fs::read(&library).map_err(unreadable)?;
    let mut last = Unplaced::Nowhere(Errno::NOENT);
    for directory in DIRECTORIES {
        match copy_into(process, directory, &content, owner) {
            Ok(placed) => return Ok(placed),
            // That a better one forbids execution is told rather than that a worse one is not there.
            Err(_) if matches!(last, Unplaced::NoExec) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn may_read(library: &Path, (uid, gid): (u32, u32)) -> bool {
    let open = || std::fs::File::open(library).is_ok();
    as_user(uid, gid, open).unwrap_or(false)
}

fn copy_into(
    process: &Process,
    directory: &str,
    content: &[u8],
    owner: (u32, u32),
) -> Result<Placed, Unplaced> {
    let system = |error: std::io::Error| {
        Unplaced::Nowhere(Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
    };
    let above = process.inner_directory(directory).map_err(system)?;
    let mount = fstatvfs(&above).map_err(Unplaced::Nowhere)?;
    if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(Unplaced::NoExec);
    }
    // Nobody can know the name beforehand; if it is there all the same, this fails.
    let name = format!(".plimsoll-{:016x}", random().map_err(Unplaced::Nowhere)?);
    let (uid, gid) = owner;
    as_user(uid, gid, || rustix::fs::mkdirat(&above, &name, Mode::RWXU))
        .map_err(system)?
        .map_err(Unplaced::Nowhere)?;
    let path = Path::new("/").join(directory).join(&name);
    let placed = Placed {
        path: path.join(LIBRARY),
        copy: Some(Copy { above, name, owner }),
    };
    // From here on a failure removes the directory.
    let Some(copy) = &placed.copy else {
        return Err(Unplaced::Nowhere(Errno::NOENT));
    };
    as_user(uid, gid, || copy.fill(content))
        .map_err(system)?
        .map_err(Unplaced::Nowhere)?;
    Ok(placed)
}

fn random() -> rustix::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

impl Copy {
    /// Our directory; no link is followed to it.
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.above, &self.name, flags, Mode::empty())
    }

    fn fill(&self, content: &[u8]) -> rustix::io::Result<()> {
        let directory = self.open()?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::XUSR;
        let file = rustix::fs::openat(&directory, LIBRARY, flags | OFlags::CLOEXEC, mode)?;
        let mut left = content;
        while !left.is_empty() {
            match rustix::io::write(&file, left) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn remove(&self) {
        if let Ok(directory) = self.open() {
            let _ = rustix::fs::unlinkat(&directory, LIBRARY, AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR);
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let (uid, gid) = self.owner;
        // A copy that cannot be removed stays for the machine's user, who owns it.
        let _ = as_user(uid, gid, || self.remove());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn own() -> (Process, (u32, u32)) {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        (Process::new(std::process::id()).unwrap(), (user, group))
    }

    #[test]
    fn a_process_that_sees_our_files_needs_no_copy() {
        let (process, owner) = own();
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("l.so");
        std::fs::write(&library, "library").unwrap();
        let placed = place(&process, &library, owner).unwrap();
        assert_eq!(placed.path(), library.canonicalize().unwrap());
        drop(placed);
        assert!(library.exists());
        let gone = place(&process, &folder.path().join("none"), owner);
        assert!(matches!(gone, Err(Unplaced::Library(..))));
    }

    #[test]
    fn a_copy_is_private_and_goes_with_its_guard() {
        let (process, owner) = own();
        let placed = match copy_into(&process, "tmp", b"library", owner) {
            Err(Unplaced::NoExec) => copy_into(&process, "var/tmp", b"library", owner),
            other => other,
        };
        let placed = placed.unwrap();
        let path = placed.path().to_owned();
        assert_eq!(std::fs::read(&path).unwrap(), b"library");
        let folder = path.parent().unwrap().to_owned();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o500));
        drop(placed);
        assert!(!folder.exists());
        let nowhere = copy_into(&process, "no-such-directory", b"library", owner);
        assert!(matches!(nowhere, Err(Unplaced::Nowhere(Errno::NOENT))));
    }
}
