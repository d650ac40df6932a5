//! Where a process's memory cgroup is: `/proc/PID/cgroup` gives its name, `/proc/self/mountinfo`
//! where the names are mounted. Source: kernel documents `cgroup-v1/cgroups.rst`, `cgroup-v2.rst`
//! ("Namespace"), `proc.rst` 3.5.

use crate::parse::{lines, unescape, words};
use crate::process::through;
use crate::reader::read_text;
use crate::{Error, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The interface of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes` and its family.
    V1,
    /// `memory.max` and its family.
    V2,
}

/// A mounted hierarchy that has the memory controller (or another requested one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its interface.
    pub version: Version,
    /// Which group of the hierarchy is at the mount point (`/` unless a container mounted a part).
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
}

/// The memory cgroup of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its interface.
    pub version: Version,
    /// The directory of the group.
    pub dir: PathBuf,
    /// The top directory that is visible to us.
    pub mount: PathBuf,
    /// False if the group itself is not mounted here. Then `dir` is the top directory, the nearest
    /// visible one.
    pub exact: bool,
}

/// Longest texts read here, bytes.
const MAX_MOUNTINFO: usize = 4 << 20;
const MAX_MEMBERSHIP: usize = 64 << 10;

/// Finds the memory cgroup of a process. `None` if there is no memory controller (no cgroups, or
/// switched off).
///
/// # Errors
/// [`Error::Gone`] when the process is no more; [`Error::Denied`], [`Error::Io`] when `/proc` cannot be read.
pub fn locate(pid: i32) -> Result<Option<Location>> {
    let Some(mut text) = text_of(pid)? else {
        return Ok(None);
    };
    let membership = parse_membership(&text);
    text.clear();
    read_text(Path::new("/proc/self/mountinfo"), MAX_MOUNTINFO, &mut text)?;
    Ok(choose(&membership, &parse_mounts(&text), &|mount| {
        has_memory(mount)
    }))
}

/// The text of `/proc/PID/cgroup`; `None` on a kernel without cgroups.
fn text_of(pid: i32) -> Result<Option<Vec<u8>>> {
    let text = through(pid, "cgroup", is_all_top, |path| {
        let mut text = Vec::new();
        read_text(path, MAX_MEMBERSHIP, &mut text)?;
        Ok(text)
    });
    match text {
        Err(e) if e.is_absent() => Ok(None),
        other => other.map(Some),
    }
}

/// Whether all groups of version 1 are the top ones, as of a thread that has ended.
fn is_all_top(text: &Vec<u8>) -> bool {
    let mut first = lines(text).filter(|line| !line.starts_with(b"0::"));
    first.all(|line| line.ends_with(b":/"))
}

/// The names of a process's groups; none on a kernel without cgroups.
///
/// # Errors
/// As [`locate`].
pub fn membership(pid: i32) -> Result<Membership> {
    Ok(text_of(pid)?.map_or_else(Membership::default, |text| parse_membership(&text)))
}

/// The groups of a process in the version 1 hierarchy that has the controller and in version 2:
/// version, directory, and the top directory visible to us. Groups that are not mounted here are
/// left out.
///
/// # Errors
/// As [`locate`].
pub(super) fn groups(pid: i32, controller: &[u8]) -> Result<Vec<(Version, PathBuf, PathBuf)>> {
    let Some(mut text) = text_of(pid)? else {
        return Ok(Vec::new());
    };
    let (first, unified) = names(&text, controller);
    text.clear();
    read_text(Path::new("/proc/self/mountinfo"), MAX_MOUNTINFO, &mut text)?;
    let mut found = Vec::new();
    for mount in lines(&text).filter_map(|line| parse_mount(line, controller)) {
        let name = match mount.version {
            Version::V1 => first.as_deref(),
            Version::V2 => unified.as_deref(),
        };
        let below = name.and_then(|name| name.strip_prefix(&mount.root).ok());
        if let Some(below) = below.filter(|rest| !climbs(rest)) {
            found.push((mount.version, mount.point.join(below), mount.point));
        }
    }
    Ok(found)
}

/// The directory of a process's group in the version 2 hierarchy, whichever controllers it has;
/// `None` if it is not mounted here.
///
/// # Errors
/// As [`locate`].
pub(crate) fn unified(pid: i32) -> Result<Option<PathBuf>> {
    let found = groups(pid, b"")?.into_iter();
    let mut unified = found.filter(|(version, ..)| *version == Version::V2);
    Ok(unified.next().map(|(_, dir, _)| dir))
}

/// The names of a process's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// In the v1 hierarchy that has the memory controller.
    pub memory_v1: Option<PathBuf>,
    /// In the one v2 hierarchy.
    pub unified: Option<PathBuf>,
    /// In the v1 hierarchy of systemd, which has no controller.
    pub systemd: Option<PathBuf>,
}

/// Parses `/proc/PID/cgroup`; lines that make no sense are passed over.
pub fn parse_membership(text: &[u8]) -> Membership {
    let (memory_v1, unified) = names(text, b"memory");
    Membership {
        memory_v1,
        unified,
        systemd: names(text, b"name=systemd").0,
    }
}

/// The name of the group in the v1 hierarchy that has this controller, and in the v2 hierarchy.
fn names(text: &[u8], controller: &[u8]) -> (Option<PathBuf>, Option<PathBuf>) {
    let mut found = (None, None);
    for line in lines(text) {
        let mut fields = line.splitn(3, |&b| b == b':');
        let (Some(number), Some(controllers), Some(name)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if !name.starts_with(b"/") {
            continue;
        }
        let name = PathBuf::from(OsStr::from_bytes(
            name.strip_suffix(b" (deleted)").unwrap_or(name),
        ));
        if number == b"0" && controllers.is_empty() {
            found.1 = Some(name);
        } else if controllers.split(|&b| b == b',').any(|c| c == controller) {
            found.0 = Some(name);
        }
    }
    found
}

/// Parses `/proc/self/mountinfo`: v1 hierarchies with the memory controller, and v2 hierarchies.
pub fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for line in lines(text) {
        mounts.extend(parse_mount(line, b"memory"));
    }
    mounts
}

fn parse_mount(line: &[u8], controller: &[u8]) -> Option<Mount> {
    let mut fields = words(line);
    let root = fields.nth(3)?;
    let point = fields.next()?;
    let mut rest = fields.skip_while(|word| *word != b"-").skip(1);
    let (kind, _source, options) = (rest.next()?, rest.next()?, rest.next()?);
    let version = match kind {
        b"cgroup2" => Version::V2,
        b"cgroup" if options.split(|&b| b == b',').any(|o| o == controller) => Version::V1,
        _ => return None,
    };
    let path = |escaped: &[u8]| PathBuf::from(OsStr::from_bytes(&unescape(escaped)));
    Some(Mount {
        version,
        root: path(root),
        point: path(point),
    })
}

/// Picks the one hierarchy that has the memory controller, and finds the group's directory in it.
/// `has_memory` tells whether a v2 mount has the controller.
pub fn choose(
    membership: &Membership,
    mounts: &[Mount],
    has_memory: &dyn Fn(&Mount) -> bool,
) -> Option<Location> {
    for mount in mounts {
        let name = match mount.version {
            Version::V1 => membership.memory_v1.as_deref(),
            Version::V2 => membership.unified.as_deref(),
        };
        let Some(name) = name else { continue };
        if mount.version == Version::V2 && !has_memory(mount) {
            continue;
        }
        let below = name
            .strip_prefix(&mount.root)
            .ok()
            .filter(|rest| !climbs(rest));
        return Some(Location {
            version: mount.version,
            dir: below.map_or_else(|| mount.point.clone(), |rest| mount.point.join(rest)),
            mount: mount.point.clone(),
            exact: below.is_some(),
        });
    }
    None
}

/// Whether a relative name leaves the namespace (`..`). Such a group is under no mount of ours.
fn climbs(rest: &Path) -> bool {
    rest.components()
        .any(|c| matches!(c, std::path::Component::ParentDir))
}

fn has_memory(mount: &Mount) -> bool {
    let mut text = Vec::new();
    let read = read_text(&mount.point.join("cgroup.controllers"), 4096, &mut text);
    read.is_ok() && words(text.trim_ascii()).any(|c| c == b"memory")
}

/// The interface version of a directory, judged by the files in it.
///
/// # Errors
/// [`Error::Absent`] when it is no memory cgroup.
pub fn version_of(dir: &Path) -> Result<Version> {
    if dir.join("memory.limit_in_bytes").exists() {
        Ok(Version::V1)
    } else if dir.join("cgroup.controllers").exists() {
        Ok(Version::V2)
    } else {
        Err(Error::Absent {
            path: dir.join("memory.max"),
        })
    }
}
