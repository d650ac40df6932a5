//! Which mounts of cgroups can be reached, and where our own group lies below one whose top is above the root
//! of our cgroup namespace. `mountinfo` shows such a top as `/../..`: how far up it is, not what is on the
//! way down. So the group that lists us is looked for at that depth. Source: `cgroup_namespaces(7)`,
//! `proc_pid_mountinfo(5)`.

use super::find::Mount;
use crate::descriptors::mount_of;
use crate::reader::read_text;
use rustix::fs::{Mode, OFlags, open};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most directories that one search looks at: 20 us each.
const MAX_LOOKED_AT: usize = 8192;
/// How far below a mount our namespace's root is looked for.
const MAX_DOWN: usize = 16;
/// The most mounts that are kept in mind.
const MAX_KEPT: usize = 64;
/// A search that found nothing is repeated after this long.
const AGAIN: Duration = Duration::from_secs(30);
/// Longest list of processes that is read, bytes.
const MAX_PROCS: usize = 1 << 20;

/// Whether what is at the point of a mount is that mount: another may lie over it, or over a directory above.
pub(super) fn is_visible(mount: &Mount) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let Ok(point) = open(&mount.point, flags, Mode::empty()) else {
        return false;
    };
    mount_of(&point).is_none_or(|id| id == mount.id)
}

impl Mount {
    /// The directory of a group below the mount, by the name that our namespace gives the group. `own` is the
    /// name of our own group there; without it none is looked for. `None` if it is not below the mount, or is
    /// not found.
    pub fn below(&self, name: &Path, own: Option<&Path>) -> Option<PathBuf> {
        let (up, top) = climbs(&self.root);
        if up == 0 {
            let rest = name.strip_prefix(&self.root).ok()?;
            return (climbs(rest).0 == 0).then(|| self.point.join(rest));
        }
        let down = up
            .checked_sub(top.components().count())
            .filter(|&down| down > 0)?;
        let (climbed, rest) = climbs(name);
        let keep = down.checked_sub(climbed)?;
        let way = way_to_us(self, down, own?)?;
        let kept: PathBuf = way.components().take(keep).collect();
        Some(self.point.join(kept).join(rest))
    }
}

/// How often a name climbs (`/../..`), and what comes after that. A name that climbs later is none of the
/// kernel's.
fn climbs(name: &Path) -> (usize, PathBuf) {
    let mut up = 0;
    let mut rest = PathBuf::new();
    for part in name.components() {
        match part {
            Component::ParentDir => up += 1,
            Component::Normal(part) => rest.push(part),
            _ => {}
        }
    }
    (up, rest)
}

/// The way from the top of a mount down to the root of our namespace, `down` names long. A search is
/// expensive, so that its result is kept as long as it holds.
fn way_to_us(mount: &Mount, down: usize, own: &Path) -> Option<PathBuf> {
    type Kept = HashMap<(PathBuf, PathBuf), (Option<PathBuf>, Instant)>;
    static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    let key = (mount.point.clone(), mount.root.clone());
    match kept.get(&key) {
        Some((Some(way), _)) if lists_us(&joined(&mount.point.join(way), own)) => {
            return Some(way.clone());
        }
        Some((None, when)) if when.elapsed() < AGAIN => return None,
        _ => {}
    }
    let found = search(&mount.point, down, &|dir| lists_us(&joined(dir, own)));
    let way = found.and_then(|dir| dir.strip_prefix(&mount.point).ok().map(Path::to_path_buf));
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(key, (way.clone(), Instant::now()));
    way
}

/// Our own group, below the root of our namespace.
fn joined(dir: &Path, own: &Path) -> PathBuf {
    dir.join(climbs(own).1)
}

fn lists_us(dir: &Path) -> bool {
    let mut text = Vec::new();
    let read = read_text(&dir.join("cgroup.procs"), MAX_PROCS, &mut text);
    let pid = std::process::id().to_string();
    read.is_ok() && crate::parse::lines(&text).any(|line| line == pid.as_bytes())
}

/// A directory exactly `down` levels below another that `is` it; looks at [`MAX_LOOKED_AT`] of them.
fn search(top: &Path, down: usize, is: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    if down > MAX_DOWN {
        return None;
    }
    let mut left = MAX_LOOKED_AT;
    let mut open = vec![(top.to_path_buf(), 0)];
    while let Some((dir, depth)) = open.pop() {
        left = left.checked_sub(1)?;
        if depth == down {
            if is(&dir) {
                return Some(dir);
            }
            continue;
        }
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(
            below
                .take(MAX_LOOKED_AT)
                .map(|entry| (entry.path(), depth + 1)),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;

    fn mount(point: &Path, root: &str) -> Mount {
        Mount {
            id: 1,
            version: Version::V1,
            root: root.into(),
            point: point.into(),
        }
    }

    #[test]
    fn our_group_is_found_below_a_mount_that_begins_above_our_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let us = std::process::id().to_string();
        for (name, listed) in [("a/x", "7"), ("a/y", &us), ("b/y", "8"), ("a/y/deep", &us)] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            std::fs::write(
                dir.path().join(name).join("cgroup.procs"),
                format!("1\n{listed}\n"),
            )
            .unwrap();
        }
        let at = |name: &str| dir.path().join(name);
        let two = mount(dir.path(), "/../..");
        let find = |mount: &Mount, name: &str, own: &str| {
            mount.below(Path::new(name), Some(Path::new(own)))
        };
        assert_eq!(find(&two, "/", "/"), Some(at("a/y")));
        // Another process of our namespace, one of a sibling's, and one further up than the mount.
        assert_eq!(find(&two, "/child", "/"), Some(at("a/y/child")));
        assert_eq!(find(&two, "/../x", "/"), Some(at("a/x")));
        assert_eq!(find(&two, "/../../b/y", "/"), Some(at("b/y")));
        assert_eq!(find(&two, "/../../../c", "/"), None);
        // A part of the tree above us, and one beside us.
        assert_eq!(
            find(&mount(&at("a"), "/../../a"), "/", "/"),
            Some(at("a/y"))
        );
        assert_eq!(find(&mount(&at("b"), "/../../b"), "/", "/"), None);
        assert_eq!(find(&mount(dir.path(), "/../../../.."), "/", "/"), None);
        assert_eq!(two.below(Path::new("/"), None), None);
        // We may be in a group below the root of our namespace.
        let deep = mount(&at("a"), "/..");
        assert_eq!(find(&deep, "/deep", "/deep"), Some(at("a/y/deep")));
    }

    #[test]
    fn a_search_ends() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..100 {
            std::fs::create_dir_all(dir.path().join(format!("{n}/a"))).unwrap();
        }
        let looked = std::cell::Cell::new(0);
        let never = |_: &Path| {
            looked.set(looked.get() + 1);
            false
        };
        assert_eq!(search(dir.path(), 2, &never), None);
        assert_eq!(looked.get(), 100);
        assert_eq!(search(dir.path(), MAX_DOWN + 1, &never), None);
        assert_eq!(looked.get(), 100);
    }

    #[test]
    fn a_mount_is_known_by_its_number() {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let last = text.lines().rfind(|line| line.contains(" /proc ")).unwrap();
        let id: u64 = last.split(' ').next().unwrap().parse().unwrap();
        let proc = Mount {
            id,
            ..mount(Path::new("/proc"), "/")
        };
        assert!(is_visible(&proc));
        assert!(!is_visible(&Mount {
            id: id + 1000,
            ..proc.clone()
        }));
        let nowhere = PathBuf::from("/nowhere");
        assert!(!is_visible(&Mount {
            point: nowhere,
            ..proc
        }));
    }
}
