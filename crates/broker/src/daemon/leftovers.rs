//! Removes leftovers of brokers with other directories that were killed and not restarted: page
//! directories on `/dev/shm`, and cgroups without a process. The broker's own directory is cleaned
//! where it is used.
//!
//! A live broker holds a lock on its pages and one in its own directory. A cgroup carries the tag
//! of its broker. If no lock holder has this tag, the broker is dead.

use crate::act::PARENT;
use crate::publish::remove_unused;
use crate::server::listener::{LOCK, tag_of};
use plimsoll_kernel::descriptors::{self, Open};
use plimsoll_kernel::locks;
use rustix::fs::{Mode, OFlags};
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Place of page directories that are not beside their socket.
const SHARED_MEMORY: &str = "/dev/shm";
/// Longest content of a lock file in bytes: a process id and a tag.
const LONGEST: u64 = 64;
/// Most names examined in one directory.
const MOST: usize = 4096;

/// Removes the certain leftovers of dead brokers of this user: page directories without a lock
/// holder, and empty cgroups under `own`.
pub(super) fn sweep(own: Option<&Path>) {
    for path in pages().filter(|path| remove_unused(path)) {
        told(&path);
    }
    let stale: Vec<(u32, PathBuf)> = own.into_iter().flat_map(cgroups).collect();
    if stale.is_empty() {
        return;
    }
    let Some(living) = living() else { return };
    for (_, path) in stale.iter().filter(|(tag, _)| !living.contains(tag)) {
        // The kernel does not remove a cgroup that holds a process or another cgroup.
        if std::fs::remove_dir(path).is_ok() {
            told(path);
        }
    }
}

fn told(path: &Path) {
    tracing::info!(path = %path.display(), "a killed broker's leftover was removed");
}

fn pages() -> impl Iterator<Item = PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let prefix = format!("plimsoll-{uid}-");
    names(Path::new(SHARED_MEMORY)).filter(move |path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let tagged = name
            .and_then(|name| tag(name.strip_prefix(&prefix)?))
            .is_some();
        let own = |meta: std::fs::Metadata| meta.is_dir() && meta.uid() == uid;
        tagged && path.symlink_metadata().is_ok_and(own)
    })
}

/// The cgroups with names `TAG-ID-NAME`, each with its tag.
fn cgroups(own: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    names(&own.join(PARENT)).filter_map(|path| {
        let tag = tag(path.file_name()?.to_str()?.split_once('-')?.0)?;
        path.is_dir().then_some((tag, path))
    })
}

fn names(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(MOST).map(|entry| entry.path())
}

fn tag(text: &str) -> Option<u32> {
    let whole = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|_| whole)
}

/// The tags of all live brokers, read from the locks that are held; `None` when they cannot be
/// known.
fn living() -> Option<HashSet<u32>> {
    let mut tags = HashSet::new();
    for holder in locks::holders().ok()? {
        // The process is gone, or belongs to another user, whose leftovers are not ours to remove.
        let open = descriptors::of(holder).into_iter().flatten();
        for Open { path, target } in open.filter(|open| is_lock(&open.target)) {
            // If a broker has not written its tag yet, the tag is computed from its directory and
            // lock.
            let words = words(&path).unwrap_or_default();
            let written = words.lines().nth(1).and_then(tag);
            let computed = || Some(tag_of(target.parent()?, path.metadata().ok()?.ino()));
            tags.extend(written.or_else(computed));
        }
    }
    // Our own tag must be among them. If not, this process cannot see which brokers live.
    (!tags.is_empty()).then_some(tags)
}

/// Content of a lock file. Any lock holder can give a file this name, so a pipe is not waited for
/// and an endless file not read.
fn words(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: std::fs::File = rustix::fs::open(path, flags, Mode::empty()).ok()?.into();
    let mut words = String::new();
    if file.metadata().ok()?.is_file() {
        file.take(LONGEST).read_to_string(&mut words).ok()?;
    }
    Some(words)
}

/// Whether this is a lock file. The kernel marks a file whose directory was removed.
fn is_lock(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(" (deleted)") == LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_eight_digits() {
        assert_eq!(tag("0000beef"), Some(0xbeef));
        assert_eq!(
            (tag("beef"), tag("0000beex"), tag("+000beef")),
            (None, None, None)
        );
    }
}
