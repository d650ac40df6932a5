//! Files that others name or own. Their owner may put a pipe, a device or a link in the place of a
//! file. So a file is examined before it is opened, never waited for, and read up to a bound.

use plimsoll_kernel::descriptors::path_of;
use plimsoll_kernel::mapped::Named;
use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::process::{Process, place};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// File systems whose files the kernel makes up. Reading such a file can have side effects, or give
/// us other contents.
const MADE_UP: [libc::c_long; 4] = [
    libc::PROC_SUPER_MAGIC,
    libc::SYSFS_MAGIC,
    libc::DEBUGFS_MAGIC,
    libc::TRACEFS_MAGIC,
];
/// How often a search is repeated at most if something was moved meanwhile.
const MOST_SEARCHES: usize = 8;

/// The root that paths are resolved from.
#[derive(Debug)]
pub enum Root {
    /// Our own root.
    Ours,
    /// The root directory of a process. No link and no `..` leads out of it.
    Of {
        /// An `O_PATH` descriptor of it.
        directory: OwnedFd,
        /// The mounts of the process. Files that may be behind a server are not found: a search would ask the
        /// server.
        mounts: Mounts,
    },
}

impl Root {
    /// Opens the root of a process.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(pid: u32) -> rustix::io::Result<Root> {
        let process = i32::try_from(pid).map_err(|_| Errno::SRCH)?;
        let mounts = Process::open(process).and_then(|process| Mounts::of(&process));
        Root::open(&place(pid, "root"), mounts.unwrap_or_default())
    }

    /// Opens a folder as the root of a process that sees these mounts.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path, mounts: Mounts) -> rustix::io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Root::Of { directory, mounts })
    }

    /// Finds a file without opening it, because opening a device can have side effects.
    ///
    /// # Errors
    /// The system's error; `EACCES` for files that may be behind a server.
    pub fn find(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        match self {
            Root::Ours => rustix::fs::open(path, flags, Mode::empty()),
            Root::Of { directory, mounts } => {
                let whole = Path::new("/").join(path);
                mounts.check_path(&whole).map_err(|_| Errno::ACCESS)?;
                let found = find_below(directory, path, flags)?;
                // A link may have led elsewhere.
                self.admits(&found).then_some(found).ok_or(Errno::ACCESS)
            }
        }
    }

    /// Whether the file of an `O_PATH` descriptor may be asked about: it is not behind a server.
    fn admits(&self, found: &OwnedFd) -> bool {
        match self {
            Root::Ours => true,
            Root::Of { mounts, .. } => mounts.check_open(found).is_ok(),
        }
    }

    /// Reads a file as [`read`] does.
    pub fn read(&self, path: &Path, most: u64) -> Option<(String, bool)> {
        read(&self.find(path, OFlags::empty()).ok()?, most)
    }

    /// Whether a regular file has this name.
    pub fn has_file(&self, path: &Path) -> bool {
        let found = self.find(path, OFlags::empty());
        found.is_ok_and(|found| is_regular(&found))
    }

    /// Up to `most` names in a folder.
    pub fn names(&self, folder: &Path, most: usize) -> Vec<OsString> {
        let Ok(found) = self.find(folder, OFlags::DIRECTORY) else {
            return Vec::new();
        };
        let entries = std::fs::read_dir(path_of(&found)).into_iter().flatten();
        let entries = entries.take(most).flatten();
        entries.map(|entry| entry.file_name()).collect()
    }
}

fn find_below(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // Magic links such as `/proc/self/fd/5` would lead to our own files.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let search = || rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
    let mut searches = std::iter::repeat_with(search).take(MOST_SEARCHES);
    let found = searches.find(|found| !matches!(found, Err(Errno::AGAIN)));
    found.unwrap_or(Err(Errno::AGAIN))
}

fn is_regular(found: &OwnedFd) -> bool {
    rustix::fs::fstat(found)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// Opens exactly this file, even if its name belongs to another by now. It has to be a regular
/// file.
///
/// # Errors
/// The system's error.
pub fn open(found: &OwnedFd) -> std::io::Result<File> {
    Ok(Named::new(found.try_clone()?)?.open()?.into())
}

/// Reads up to `most` bytes of a file. Returns the text and whether it is complete; `None` if the
/// file cannot be read. A pipe is left alone, because its reader would miss what we take.
pub fn read(found: &OwnedFd, most: u64) -> Option<(String, bool)> {
    let is_made_up =
        rustix::fs::fstatfs(found).is_ok_and(|on| MADE_UP.contains(&(on.f_type as libc::c_long)));
    if is_made_up || !is_regular(found) {
        return None;
    }
    Some(read_to(open(found).ok()?, most))
}

/// Reads up to `most` bytes and tells whether that is all. Does not trust the file's length,
/// because some files report 0 and others grow.
fn read_to(from: impl Read, most: u64) -> (String, bool) {
    let mut bytes = Vec::new();
    // If reading fails midway, keep what was read.
    let read = from.take(most.saturating_add(1)).read_to_end(&mut bytes);
    let bound = usize::try_from(most).unwrap_or(usize::MAX);
    let whole = read.is_ok() && bytes.len() <= bound;
    bytes.truncate(bound);
    (String::from_utf8_lossy(&bytes).into_owned(), whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const MOST: u64 = 1 << 10;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("folder/file"), "text").unwrap();
        symlink("/folder/file", at("link")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        symlink("/sys/kernel/mm/transparent_hugepage/enabled", at("made up")).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode).unwrap();
        let mounts = Mounts::of(&Process::own().unwrap()).unwrap();
        let below = Root::open(dir.path(), mounts).unwrap();
        let inside = |name: &str| below.read(Path::new(name), MOST);
        assert_eq!(inside("link"), Some(("text".to_owned(), true)));
        assert!(below.has_file(Path::new("/link")) && !below.has_file(Path::new("/pipe")));
        for name in ["pipe", "device", "made up", "folder"] {
            assert_eq!(inside(name), None, "{name}");
            assert_eq!(Root::Ours.read(&at(name), MOST), None, "{name}");
        }
        let names = |folder: &str| below.names(Path::new(folder), 1);
        assert_eq!(names("folder"), ["file"]);
        assert!(names("pipe").is_empty() && names("nothing").is_empty());
    }

    #[test]
    fn a_server_is_not_asked_for_a_file_below_the_root_of_a_process() {
        let Some(server) = plimsoll_testbed::FuseServer::start() else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        symlink(server.file(), dir.path().join("link")).unwrap();
        server.stand_still();
        let asked = server.asked();
        let root = Root::of(std::process::id()).unwrap();
        assert!(!root.has_file(&server.file()) && root.read(&server.file(), MOST).is_none());
        assert!(root.names(server.file().parent().unwrap(), 9).is_empty());
        assert_eq!(server.asked(), asked);
        let here = std::env::current_exe().unwrap();
        assert!(root.has_file(&here) && root.read(&here, 4).is_some());
    }

    #[test]
    fn what_goes_on_behind_the_bound_is_not_whole() {
        assert_eq!(read_to(&b"four"[..], 4), ("four".to_owned(), true));
        assert_eq!(read_to(&b"four"[..], 3), ("fou".to_owned(), false));
        assert_eq!(read_to(std::io::repeat(b'a'), 2), ("aa".to_owned(), false));
    }
}
