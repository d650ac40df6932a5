//! Removes leftovers of brokers with other directories that were killed and not restarted: page
//! directories on `/dev/shm`, and cgroups without a process. The broker's own directory is cleaned
//! where it is used.
//!
//! A live broker holds a lock on its pages and one in its own directory. A cgroup carries the tag
//! of its broker. If no lock holder of this user has this tag, the broker is dead.
//!
//! Programs of others may hold very many locks and files. So the search is a thread's, begun once the broker
//! answers, looks at the processes of the broker's own user alone, and at a bounded number of their files.

use crate::act::PARENT;
use crate::publish::remove_unused;
use crate::server::listener::{LOCK, tag_of};
use plimsoll_kernel::descriptors::{self, Open};
use plimsoll_kernel::locks;
use plimsoll_kernel::mapped::Named;
use plimsoll_kernel::process::Process;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Place of page directories that are not beside their socket.
const SHARED_MEMORY: &str = "/dev/shm";
/// Longest content of a lock file in bytes: a process id and a tag.
const LONGEST: u64 = 64;
/// Most lock holders whose files are examined.
const MOST_HOLDERS: usize = 1024;
/// Most open files examined, of all holders together.
const MOST_FILES: usize = 65_536;
/// Most names examined in one directory.
const MOST: usize = 4096;

/// Starts the search, and does not wait for it. Without a thread the leftovers stay until the next broker.
pub(super) fn start(own: Option<&Path>, tag: u32) {
    let own = own.map(Path::to_path_buf);
    let thread = std::thread::Builder::new().name("leftovers".into());
    if let Err(error) = thread.spawn(move || sweep(own.as_deref(), tag)) {
        tracing::debug!(%error, "no thread to look for leftovers of killed brokers");
    }
}

/// Removes the certain leftovers of dead brokers of this user: page directories without a lock
/// holder, and empty cgroups under `own`. `tag` is that of this broker.
fn sweep(own: Option<&Path>, tag: u32) {
    for path in pages().filter(|path| remove_unused(path)) {
        told(&path);
    }
    let uid = rustix::process::geteuid().as_raw();
    let stale: Vec<(u32, PathBuf)> = own.into_iter().flat_map(|own| cgroups(own, uid)).collect();
    if stale.is_empty() {
        return;
    }
    let Some(living) = living(uid, tag) else {
        return;
    };
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
        tagged && is_of(path, uid)
    })
}

/// The cgroups of a user with names `TAG-ID-NAME`, each with its tag.
fn cgroups(own: &Path, uid: u32) -> impl Iterator<Item = (u32, PathBuf)> {
    names(&own.join(PARENT)).filter_map(move |path| {
        let tag = tag(path.file_name()?.to_str()?.split_once('-')?.0)?;
        is_of(&path, uid).then_some((tag, path))
    })
}

/// Whether this is a directory of that user. Leftovers of others are not ours to remove: their brokers are
/// not among those that [`living`] finds.
fn is_of(path: &Path, uid: u32) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

fn names(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(MOST).map(|entry| entry.path())
}

fn tag(text: &str) -> Option<u32> {
    let whole = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|_| whole)
}

/// The tags of all live brokers of this user, read from the locks that are held; `None` when they cannot be
/// known. `own` is that of this broker.
fn living(uid: u32, own: u32) -> Option<HashSet<u32>> {
    let holders: BTreeSet<i32> = locks::holders().ok()?.into_iter().collect();
    let is_ours = |pid: &i32| {
        Process::open(*pid).is_ok_and(|process| process.uid().is_ok_and(|its| its == uid))
    };
    living_among(holders.into_iter().filter(is_ours), uid, own)
}

/// As [`living`], among these processes; `None` too if they are too many, or have too many files.
fn living_among(holders: impl Iterator<Item = i32>, uid: u32, own: u32) -> Option<HashSet<u32>> {
    let mut tags = HashSet::new();
    let mut left = MOST_FILES;
    for (index, holder) in holders.enumerate() {
        if index >= MOST_HOLDERS {
            return None;
        }
        let open = descriptors::of(holder).into_iter().flatten();
        for Open { path, target } in open {
            left = left.checked_sub(1)?;
            if !is_lock(&target) {
                continue;
            }
            // If a broker has not written its tag yet, the tag is computed from its directory and
            // lock.
            let words = words(&path, uid).unwrap_or_default();
            let written = words.lines().nth(1).and_then(tag);
            let computed = || Some(tag_of(target.parent()?, path.metadata().ok()?.ino()));
            tags.extend(written.or_else(computed));
        }
    }
    // Our own tag must be among them. If not, this process cannot see which brokers live.
    tags.contains(&own).then_some(tags)
}

/// Content of a lock file of a user. Any lock holder can give a file this name.
fn words(path: &Path, uid: u32) -> Option<String> {
    let named = Named::at(path)
        .and_then(|named| named.checked(uid, LONGEST))
        .ok()?;
    let mut words = String::new();
    let file = File::from(named.open().ok()?);
    file.take(LONGEST).read_to_string(&mut words).ok()?;
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
    fn a_lock_is_read_of_its_holder_and_a_pipe_or_a_device_of_its_name_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join(LOCK);
        std::fs::write(&lock, "7\n0000beef\n").unwrap();
        let _held = File::open(&lock).unwrap();
        let (own, uid) = (
            std::process::id() as i32,
            rustix::process::geteuid().as_raw(),
        );
        let found = |tag| living_among([own].into_iter(), uid, tag);
        assert!(found(0xbeef).is_some());
        assert!(found(0xcafe).is_none(), "our own is not among them");
        assert_eq!(words(&lock, uid + 1), None);
        assert_eq!(words(Path::new("/dev/zero"), 0), None);
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(words(&pipe, uid), None);
        // Longer than a lock: some other file.
        std::fs::write(&lock, "7\n0000cafe\n".repeat(9)).unwrap();
        assert!(found(0xcafe).is_none());
    }

    #[test]
    fn the_cgroups_of_another_user_are_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        for name in ["0000beef-1-a", "0000cafe-2", "other", "beef-1-a"] {
            std::fs::create_dir_all(dir.path().join(PARENT).join(name)).unwrap();
        }
        let tags = |uid| {
            let found = cgroups(dir.path(), uid).map(|(tag, _)| tag);
            found.collect::<BTreeSet<u32>>()
        };
        assert_eq!(tags(uid), BTreeSet::from([0xbeef, 0xcafe]));
        assert_eq!(tags(uid + 1), BTreeSet::new());
    }

    #[test]
    fn a_search_among_very_many_is_given_up() {
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(
            living_among(std::iter::repeat_n(0, MOST_HOLDERS + 1), uid, 7),
            None
        );
    }

    #[test]
    fn a_tag_has_eight_digits() {
        assert_eq!(tag("0000beef"), Some(0xbeef));
        assert_eq!(
            (tag("beef"), tag("0000beex"), tag("+000beef")),
            (None, None, None)
        );
    }
}
