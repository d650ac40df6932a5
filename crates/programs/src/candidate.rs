//! Evidence of a running process: its executable, and the files that it has mapped.

use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::process::{Handle, Process};
use plimsoll_kernel::smaps::{Area, each_mapping_of};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A Java virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jvm {
    /// The one of OpenJDK and Oracle, with `libjvm.so`.
    HotSpot,
    /// The one of Eclipse and IBM, which has a `libjvm.so` of its own.
    OpenJ9,
}

/// A running process, as it was when it was looked at. Used by one thread.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// Its number.
    pid: u32,
    /// Target of `/proc/PID/exe`, empty where it is hidden; looked up when somebody asks.
    executable: OnceCell<PathBuf>,
    /// The mounts that it sees, none where they could not be read; looked up when somebody asks.
    mounts: OnceCell<Arc<Mounts>>,
    /// Its mappings: all that have a file. Those without one may be missing.
    mappings: Cow<'a, [Area]>,
    /// We may not look into it.
    closed: bool,
    /// Its Java virtual machine; empty until somebody asks.
    jvm: OnceCell<Option<Jvm>>,
}

impl Candidate<'static> {
    /// Looks at a process. A process that is gone has no files.
    pub fn look(pid: u32) -> Candidate<'static> {
        let mut mappings = Vec::new();
        let looked = each_mapping_of(pid, &mut |mapping| {
            if mapping.name.starts_with('/') {
                mappings.push(mapping.clone());
            }
            true
        });
        Candidate {
            pid,
            executable: OnceCell::new(),
            mounts: OnceCell::new(),
            mappings: Cow::Owned(mappings),
            closed: looked.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied),
            jvm: OnceCell::new(),
        }
    }
}

impl<'a> Candidate<'a> {
    /// A process that was looked at already: what `/proc/PID/exe` names, the mounts that it sees, and its
    /// mappings.
    pub fn seen(
        pid: u32,
        executable: &Path,
        mounts: &Arc<Mounts>,
        mappings: &'a [Area],
    ) -> Candidate<'a> {
        Candidate {
            pid,
            executable: OnceCell::from(executable.to_owned()),
            mounts: OnceCell::from(Arc::clone(mounts)),
            mappings: Cow::Borrowed(mappings),
            closed: false,
            jvm: OnceCell::new(),
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A handle of the process; `None` if it is gone.
    pub fn process(&self) -> Option<Handle> {
        Handle::new(self.pid).ok()
    }

    /// The target of `/proc/PID/exe`; empty where it is hidden.
    pub fn executable(&self) -> &Path {
        let find = || self.open()?.exe().ok().flatten();
        self.executable.get_or_init(|| find().unwrap_or_default())
    }

    /// The mounts that it sees; empty where they could not be read. An empty list admits only files on
    /// devices that our own mounts show to be local, and no path below the process's root.
    pub(crate) fn mounts(&self) -> &Mounts {
        let find = || Mounts::of(&self.open()?).ok();
        self.mounts
            .get_or_init(|| Arc::new(find().unwrap_or_default()))
    }

    fn open(&self) -> Option<Process> {
        Process::open(i32::try_from(self.pid).ok()?).ok()
    }

    /// Its mappings: all that have a file. Those without one may be missing.
    pub(crate) fn mappings(&self) -> &[Area] {
        &self.mappings
    }

    /// The files that the process has mapped, as paths below its own root. Includes files that were
    /// deleted since. A file that is mapped in several pieces, one after another, is told once.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.mappings.iter().filter_map(move |area| {
            let file = area.name.trim_end_matches(" (deleted)");
            let is_news = file.starts_with('/') && last.replace(file) != Some(file);
            is_news.then_some(file)
        })
    }

    /// The file names of [`Candidate::files`], without their folders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files().filter_map(|file| file.rsplit('/').next())
    }

    /// Whether we may not look into the process because it has rights that we lack. Its files are
    /// unknown then.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The Java virtual machine of the process. Several runtimes ask, so the answer is kept.
    pub(crate) fn jvm(&self, look: impl FnOnce() -> Option<Jvm>) -> Option<Jvm> {
        *self.jvm.get_or_init(look)
    }
}

/// Mappings of these names, for tests.
#[cfg(test)]
pub(crate) fn mappings(names: &[&str]) -> Vec<Area> {
    let area = |name: &&str| Area {
        name: (*name).to_owned(),
        ..Area::default()
    };
    names.iter().map(area).collect()
}

/// The first mapping of a file as the loader makes it, for tests.
#[cfg(test)]
pub(crate) fn mapping(path: &Path) -> Area {
    use plimsoll_kernel::smaps::FileKey;
    use std::os::unix::fs::MetadataExt;
    let there = std::fs::metadata(path).unwrap();
    let start = 0x5500_0000_0000;
    Area {
        addresses: start..start + (1 << 30),
        file: FileKey {
            major: rustix::fs::major(there.dev()),
            minor: rustix::fs::minor(there.dev()),
            inode: there.ino(),
        },
        name: path.to_str().unwrap().into(),
        ..Area::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_map_are_told_once_and_without_what_is_no_file() {
        let mappings = mappings(&["/a/b.so", "/a/b.so", "", "[heap]", "/c d (deleted)"]);
        let found = Candidate::seen(0, Path::new(""), &Arc::default(), &mappings);
        assert_eq!(found.files().collect::<Vec<_>>(), ["/a/b.so", "/c d"]);
        assert_eq!(found.names().collect::<Vec<_>>(), ["b.so", "c d"]);
        assert_eq!(found.jvm(|| Some(Jvm::HotSpot)), Some(Jvm::HotSpot));
        let again = found.jvm(|| unreachable!("it was looked for"));
        assert_eq!(again, Some(Jvm::HotSpot));
        let own = Candidate::look(std::process::id());
        assert!(!own.is_closed() && own.names().any(|name| name == "libc.so.6"));
        assert_eq!(own.executable(), std::env::current_exe().unwrap());
        let none = Candidate::look(0);
        assert!(!none.is_closed() && none.files().next().is_none() && none.process().is_none());
        assert_eq!(none.executable(), Path::new(""));
    }
}
