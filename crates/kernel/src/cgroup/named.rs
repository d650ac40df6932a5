//! A group named by somebody who is not trusted. It has to lie below the memory controller's mount,
//! and the path must contain no link. So only the kernel's files are opened, never a pipe or a
//! device in the place of one.

use super::{Cgroup, locate};
use crate::{Error, Result};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};

impl Cgroup {
    /// The group of this name: a path below the memory controller's mount, with or without the path
    /// of the mount itself in front.
    ///
    /// # Errors
    /// [`Error::Absent`] when there is no such group, or no memory controller; [`Error::Denied`]
    /// when the path leads elsewhere; as [`Cgroup::at`].
    pub fn named(name: &Path) -> Result<Cgroup> {
        let own = locate(rustix::process::getpid().as_raw_nonzero().get())?;
        let absent = || Error::Absent { path: name.into() };
        let mount = own.ok_or_else(absent)?.mount;
        Cgroup::at(&below(&mount, name)?)
    }
}

/// The directory of that name below `mount`, if it is one.
fn below(mount: &Path, name: &Path) -> Result<PathBuf> {
    let rest = name
        .strip_prefix(mount)
        .or_else(|_| name.strip_prefix("/"))
        .unwrap_or(name);
    let rest = if rest.as_os_str().is_empty() {
        Path::new(".")
    } else {
        rest
    };
    let path = mount.join(rest);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, mount, flags, Mode::empty())
        .map_err(|errno| Error::of_file("open", mount, errno))?;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(&top, rest, flags, Mode::empty(), resolve)
        .map_err(|errno| Error::of_file("open", &path, errno))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_directory_below_the_mount() {
        let mount = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(mount.path().join("a")).unwrap();
        std::os::unix::fs::symlink(outside.path(), mount.path().join("link")).unwrap();
        std::fs::write(mount.path().join("file"), "").unwrap();
        let whole = mount.path().join("a");
        for name in [Path::new("/a"), Path::new("a"), &whole] {
            assert_eq!(below(mount.path(), name).unwrap(), whole);
        }
        assert!(below(mount.path(), Path::new("/")).is_ok());
        for name in ["/link", "/link/x", "/file", "/b", "/../x", "/a/../../x"] {
            assert!(below(mount.path(), Path::new(name)).is_err(), "{name}");
        }
    }
}
