//! Files with options, as the program that names them would find them. A program may name whatever it likes:
//! so it is looked at before it is opened, never waited for, and read to a bound.

use crate::process::Process;
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the names of files lead.
#[derive(Debug)]
pub enum Files {
    /// Where they lead us; relative ones begin in this folder.
    Ours(PathBuf),
    /// Where they lead a process that has another root.
    Inner(Inner),
    /// Nowhere: what the process sees is closed to us.
    Closed,
}

/// What a process with another root sees.
#[derive(Debug)]
pub struct Inner {
    root: OwnedFd,
    /// Its working directory, below that root; none where it lies outside of it, or is removed.
    folder: Option<PathBuf>,
}

impl Files {
    /// As this process finds them, in its own mount namespace and below its own root.
    pub fn of(process: &Process) -> Files {
        if is_where_we_are(process) {
            return Files::Ours(process.path("cwd"));
        }
        Inner::of(process).map_or(Files::Closed, Files::Inner)
    }

    /// What a file holds, of which `most` bytes are read at the most, and whether that is all of it. `None`
    /// where it cannot be read. A pipe (`@<(…)`) is left alone: what we read of it the launcher would not
    /// find any more. So is a file of `/proc`, which may say something else to us.
    pub fn read(&self, name: &Path, most: u64) -> Option<(String, bool)> {
        let found = self.find(name).ok()?;
        let is_proc = rustix::fs::fstatfs(&found).is_ok_and(|on| on.f_type == PROC_SUPER_MAGIC);
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode);
        if kind != FileType::RegularFile || is_proc {
            return None;
        }
        // This very file, whatever has that name by now.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
            .ok()?;
        let length = file.metadata().ok()?.len();
        let mut bytes = Vec::new();
        // Of one that breaks off, what there was.
        let read = file.take(most).read_to_end(&mut bytes);
        let whole = read.is_ok() && length <= most;
        Some((String::from_utf8_lossy(&bytes).into_owned(), whole))
    }

    /// Finds a file without opening it: opening a device may do something.
    fn find(&self, name: &Path) -> rustix::io::Result<OwnedFd> {
        match self {
            Files::Ours(folder) => rustix::fs::open(
                folder.join(name),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            ),
            Files::Inner(inner) => inner.find(name, OFlags::empty()),
            Files::Closed => Err(Errno::ACCESS),
        }
    }
}

impl Inner {
    fn of(process: &Process) -> io::Result<Inner> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(process.path("root"), flags, Mode::empty())?;
        let mut inner = Inner { root, folder: None };
        let folder = path_below_root(process, "cwd");
        inner.folder = folder.filter(|folder| inner.is_cwd(process, folder));
        Ok(inner)
    }

    /// Whether this is its working directory: another one may have been mounted over it.
    fn is_cwd(&self, process: &Process, folder: &Path) -> bool {
        let found = self.find(folder, OFlags::DIRECTORY);
        let found = found.and_then(|folder| rustix::fs::fstat(&folder));
        let own = std::fs::metadata(process.path("cwd"));
        found.is_ok_and(|found| {
            own.is_ok_and(|own| (own.dev(), own.ino()) == (found.st_dev, found.st_ino))
        })
    }

    /// No link and no `..` leads out of its root.
    fn find(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = match &self.folder {
            _ if name.is_absolute() => name.to_path_buf(),
            Some(folder) => folder.join(name),
            None => return Err(Errno::NOENT),
        };
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)
    }
}

/// Whether the names of files mean the same to it as to us.
fn is_where_we_are(process: &Process) -> bool {
    let own = Path::new("/proc/self");
    let namespace = |of: &Path| std::fs::read_link(of.join("ns/mnt")).ok();
    let root = |of: &Path| {
        let root = std::fs::metadata(of.join("root")).ok()?;
        Some((root.dev(), root.ino()))
    };
    let its = process.path("");
    let same = namespace(own).is_some_and(|ours| namespace(&its) == Some(ours));
    same && root(own).is_some_and(|ours| root(&its) == Some(ours))
}

/// The path, as the process itself would name it, that `/proc/PID/<link>` leads to (`cwd`, `exe`). `None`
/// where that lies outside of its root.
pub(in crate::hotspot) fn path_below_root(process: &Process, link: &str) -> Option<PathBuf> {
    let path = std::fs::read_link(process.path(link)).ok()?;
    let root = std::fs::read_link(process.path("root")).ok()?;
    Some(Path::new("/").join(path.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const MOST: u64 = 1 << 20;

    /// What a process with this root and this folder in it would find.
    fn inner(root: &Path, folder: Option<&str>) -> Files {
        Files::Inner(Inner {
            root: File::open(root).unwrap().into(),
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
        std::fs::create_dir_all(root.join("work/below")).unwrap();
        for (file, text) in [
            ("outside", "outside"),
            ("root/options", "options"),
            ("root/outside", "inside"),
            ("root/work/relative", "relative"),
        ] {
            std::fs::write(top.path().join(file), text).unwrap();
        }
        symlink("/options", root.join("work/link")).unwrap();
        symlink("../../../outside", root.join("work/out")).unwrap();
        symlink(top.path().join("outside"), root.join("work/away")).unwrap();
        let files = inner(&root, Some("/work"));
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
        // `/proc` tells each process something else.
        for name in ["/proc/self/cmdline", "/dev/zero"] {
            assert_eq!(text(&ours, name), None, "{name}");
        }
    }

    #[test]
    fn a_process_is_found_where_it_works() {
        let own = Process::new(std::process::id()).unwrap();
        assert!(matches!(Files::of(&own), Files::Ours(_)));
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(path_below_root(&own, "cwd"), Some(cwd.clone()));
        assert_eq!(Inner::of(&own).unwrap().folder, Some(cwd));
        let nobody = Process { pid: 0, started: 0 };
        assert!(!is_where_we_are(&nobody));
        assert!(matches!(Files::of(&nobody), Files::Closed));
    }
}
