//! Files with options, found as the program that names them would find them. A program may name any
//! file. So each is examined before it is opened, never waited for, and read up to a bound.

use crate::process::Process;
use plimsoll_kernel::mapped::Named;
use plimsoll_programs::foreign_files::{self, Root};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// From where file names are resolved.
#[derive(Debug)]
pub enum Files {
    /// From our own view, before we start the program. Relative names begin in this folder.
    Ours(PathBuf),
    /// From the view of a running process.
    Inner(Inner),
    /// Not at all: the process's view is closed to us.
    Closed,
}

/// The view of a running process.
#[derive(Debug)]
pub struct Inner {
    /// Its root directory.
    root: Root,
    /// The working directory as a path below the process's root; none if it lies outside or was
    /// removed.
    folder: Option<PathBuf>,
}

impl Files {
    /// The view of this process, in its mount namespace and below its root. Used even if both are
    /// the same as ours: names such as `/dev/fd/5` and `/proc/self/cwd` mean something else to us,
    /// and are not found.
    pub fn of(process: &Process) -> Files {
        Inner::of(process).map_or(Files::Closed, Files::Inner)
    }

    /// Reads up to `most` bytes of a file. Returns the text and whether it is complete; `None` if
    /// the file cannot be read. A pipe (`@<(…)`) is left alone, because the launcher could no
    /// longer read what we took. So is a file of `/proc`, which may have other contents for us.
    pub fn read(&self, name: &Path, most: u64) -> Option<(String, bool)> {
        foreign_files::read(&self.find(name).ok()?, most)
    }

    /// Whether nothing has this name, or only a dangling link.
    pub(super) fn lacks(&self, name: &Path) -> bool {
        matches!(self.find(name), Err(Errno::NOENT | Errno::NOTDIR))
    }

    fn find(&self, name: &Path) -> rustix::io::Result<OwnedFd> {
        match self {
            Files::Ours(folder) => Root::Ours.find(&folder.join(name), OFlags::empty()),
            Files::Inner(inner) => inner.find(name, OFlags::empty()),
            Files::Closed => Err(Errno::ACCESS),
        }
    }
}

impl Inner {
    fn of(process: &Process) -> io::Result<Inner> {
        let root = Root::of(process.pid)?;
        let mut inner = Inner { root, folder: None };
        let folder = path_below_root(process, "cwd");
        inner.folder = folder.filter(|folder| inner.is_cwd(process, folder));
        Ok(inner)
    }

    /// Whether `folder` really is the working directory: another one may be mounted over it.
    fn is_cwd(&self, process: &Process, folder: &Path) -> bool {
        let found = self.find(folder, OFlags::DIRECTORY);
        let found = found.ok().and_then(|folder| fstat(&folder).ok());
        let own = i32::try_from(process.pid).ok();
        let own = own.and_then(|pid| Named::of_link(pid, "cwd").ok());
        let file = |stat: &Stat| (stat.st_dev, stat.st_ino);
        found.is_some_and(|found| own.is_some_and(|own| file(own.stat()) == file(&found)))
    }

    fn find(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = match &self.folder {
            _ if name.is_absolute() => name.to_path_buf(),
            Some(folder) => folder.join(name),
            // A file may exist where we cannot look.
            None => return Err(Errno::ACCESS),
        };
        self.root.find(&path, flags)
    }
}

/// The target of `/proc/PID/<link>` (`cwd`, `exe`), as a path that the process itself would use.
/// `None` if it lies outside the process's root.
pub(in crate::hotspot) fn path_below_root(process: &Process, link: &str) -> Option<PathBuf> {
    let path = std::fs::read_link(process.path(link)).ok()?;
    let root = std::fs::read_link(process.path("root")).ok()?;
    Some(Path::new("/").join(path.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::mounts::Mounts;
    use plimsoll_kernel::process as kernel;
    use rustix::fs::Mode;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    const MOST: u64 = 1 << 20;

    /// The view of a process with this root and this folder in it.
    fn inner(root: &Path, folder: Option<&str>) -> Files {
        let mounts = Mounts::of(&kernel::Process::own().unwrap()).unwrap();
        Files::Inner(Inner {
            root: Root::open(root, mounts).unwrap(),
            folder: folder.map(PathBuf::from),
        })
    }

    fn text(files: &Files, name: &str) -> Option<String> {
        files.read(Path::new(name), MOST).map(|(text, _)| text)
    }

    #[test]
    fn names_lead_where_they_lead_the_process_and_never_out_of_its_root() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("root");
        std::fs::create_dir_all(root.join("apps/below")).unwrap();
        for (file, text) in [
            ("outside", "outside"),
            ("root/options", "options"),
            ("root/outside", "inside"),
            ("root/apps/relative", "relative"),
        ] {
            std::fs::write(top.path().join(file), text).unwrap();
        }
        symlink("/options", root.join("apps/link")).unwrap();
        symlink("../../../outside", root.join("apps/out")).unwrap();
        symlink(top.path().join("outside"), root.join("apps/away")).unwrap();
        let files = inner(&root, Some("/apps"));
        for (name, expected) in [
            ("/options", Some("options")),
            ("relative", Some("relative")),
            ("below/../relative", Some("relative")),
            ("../options", Some("options")),
            ("link", Some("options")),
            ("out", Some("inside")),
            ("away", None),
            ("nothing", None),
            ("", None),
            ("below", None),
        ] {
            assert_eq!(text(&files, name).as_deref(), expected, "{name}");
        }
        let lost = inner(&root, None);
        assert_eq!(text(&lost, "/options").as_deref(), Some("options"));
        assert_eq!(text(&lost, "relative"), None);
        assert_eq!(text(&Files::Closed, "/options"), None);
    }

    #[test]
    fn what_is_no_file_is_neither_opened_nor_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        let pipe = root.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        std::fs::write(root.path().join("four"), "four").unwrap();
        let ours = Files::Ours(root.path().to_path_buf());
        for files in [&ours, &inner(root.path(), Some("/"))] {
            for name in ["pipe", "socket", "."] {
                assert!(files.read(Path::new(name), MOST).is_none(), "{name}");
            }
            let four = |most| files.read(Path::new("four"), most).unwrap();
            assert_eq!(four(4), ("four".to_owned(), true));
            assert_eq!(four(3), ("fou".to_owned(), false));
        }
        // The contents of `/proc` differ between processes.
        for name in ["/proc/self/cmdline", "/dev/zero"] {
            assert_eq!(text(&ours, name), None, "{name}");
        }
    }

    #[test]
    fn a_process_is_found_where_it_works() {
        let own = Process::new(std::process::id()).unwrap();
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(path_below_root(&own, "cwd"), Some(cwd.clone()));
        assert_eq!(Inner::of(&own).unwrap().folder, Some(cwd));
        let nobody = Process { pid: 0, started: 0 };
        assert!(matches!(Files::of(&nobody), Files::Closed));
    }

    #[test]
    fn what_each_process_has_of_its_own_is_not_taken_from_us() {
        let own = Process::new(std::process::id()).unwrap();
        let files = Files::of(&own);
        assert!(text(&files, "Cargo.toml").is_some());
        let open = File::open("Cargo.toml").unwrap();
        let fd = open.as_raw_fd();
        for name in [
            format!("/dev/fd/{fd}"),
            format!("/proc/self/fd/{fd}"),
            "/proc/self/cwd/Cargo.toml".to_owned(),
            "/proc/thread-self/cwd/Cargo.toml".to_owned(),
        ] {
            assert_eq!(text(&files, &name), None, "{name}");
            assert!(!files.lacks(Path::new(&name)), "{name}");
        }
    }
}
