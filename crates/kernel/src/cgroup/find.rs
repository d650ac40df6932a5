//! Where a process's memory cgroup is: `/proc/PID/cgroup` gives its name, `/proc/self/mountinfo`
//! where the names are mounted. If several mounts cover one another, the top one counts. Source: documents
//! `cgroup-v1/cgroups.rst`, `cgroup-v2.rst` ("Namespace"), `proc.rst` 3.5.

use super::visible::is_visible;
use crate::mounts;
use crate::parse::{lines, number, unescape, words};
use crate::process::text_through;
use crate::reader::read_text;
use crate::{Error, Result};
use std::ffi::OsStr;
use std::fmt::Display;
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
    /// Its number in `mountinfo`.
    pub id: u64,
    /// Its interface.
    pub version: Version,
    /// Which group of the hierarchy is at the mount point (`/` unless a container mounted a part), as our
    /// cgroup namespace names it: `/../..` is two levels above the namespace's root.
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
const MAX_MEMBERSHIP: usize = 64 << 10;

/// Finds the memory cgroup of a process. `None` if there is no memory controller (no cgroups, or
/// switched off).
///
/// # Errors
/// [`Error::Gone`] when the process is no more; [`Error::Denied`], [`Error::Io`] when `/proc` cannot be read.
pub fn locate(pid: i32) -> Result<Option<Location>> {
    let Some(text) = text_of(pid)? else {
        return Ok(None);
    };
    let membership = parse_membership(&text);
    let mut mounts = parse_mounts(&mounts::text_of("self")?);
    mounts.retain(is_visible);
    let own = own_names(&mounts, b"memory");
    let place = |mount: &Mount, name: &Path| mount.below(name, own_name(&own, mount.version));
    Ok(choose(
        &membership,
        &mounts,
        &|mount| has_memory(mount),
        &place,
    ))
}

/// Whether a process may be in a group below the top one of which nothing is visible here. Then limits may
/// bind it that nobody can show us.
///
/// # Errors
/// As [`locate`].
pub fn is_unseen(pid: i32) -> Result<bool> {
    if locate(pid)?.is_some_and(|found| found.exact) {
        return Ok(false);
    }
    let names = membership(pid)?;
    let Some(name) = names.memory_v1.as_deref().or(names.unified.as_deref()) else {
        return Ok(false);
    };
    let is_top = name == Path::new("/") && !is_in_namespace();
    Ok(!is_top && is_there(&names)?)
}

/// Whether the kernel has the memory controller on a hierarchy that the process is in. A mount of version 2
/// that is visible shows whether it is handed down to there.
fn is_there(names: &Membership) -> Result<bool> {
    if names.memory_v1.is_some() {
        return Ok(true);
    }
    let mut mounts = parse_mounts(&mounts::text_of("self")?);
    mounts.retain(|mount| mount.version == Version::V2 && is_visible(mount));
    if !mounts.is_empty() {
        return Ok(mounts.iter().any(has_memory));
    }
    let mut text = Vec::new();
    // Without this file (it may go one day) the controller is most likely there.
    let read = read_text(Path::new("/proc/cgroups"), MAX_MEMBERSHIP, &mut text);
    let is_off = |line: &[u8]| {
        let mut words = words(line);
        words.next() == Some(b"memory") && words.nth(2) == Some(b"0")
    };
    Ok(read.is_err() || !lines(&text).any(is_off))
}

/// Whether we are in a cgroup namespace that is not the machine's first one, in which `/` is the top group.
fn is_in_namespace() -> bool {
    /// `PROC_CGROUP_INIT_INO` (`linux/proc_ns.h`).
    const FIRST: &str = "cgroup:[4026531835]";
    let own = std::fs::read_link("/proc/thread-self/ns/cgroup");
    own.is_ok_and(|own| own != Path::new(FIRST))
}

/// The names of our own groups: version 1, version 2. Only asked for where a mount begins above our
/// namespace.
fn own_names(mounts: &[Mount], controller: &[u8]) -> (Option<PathBuf>, Option<PathBuf>) {
    if mounts.iter().all(|mount| !climbs(&mount.root)) {
        return (None, None);
    }
    let text = text_of("self").ok().flatten();
    text.map_or((None, None), |text| names(&text, controller))
}

fn own_name(own: &(Option<PathBuf>, Option<PathBuf>), version: Version) -> Option<&Path> {
    match version {
        Version::V1 => own.0.as_deref(),
        Version::V2 => own.1.as_deref(),
    }
}

/// The text of `/proc/PID/cgroup`; `None` on a kernel without cgroups.
fn text_of(pid: impl Display) -> Result<Option<Vec<u8>>> {
    let text = text_through(pid, "cgroup", MAX_MEMBERSHIP, |text| is_all_top(text));
    match text {
        Err(e) if e.is_absent() => Ok(None),
        other => other.map(Some),
    }
}

/// Whether all groups of version 1 are the top ones, as of a thread that has ended.
fn is_all_top(text: &[u8]) -> bool {
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
    let Some(text) = text_of(pid)? else {
        return Ok(Vec::new());
    };
    let named = names(&text, controller);
    let text = mounts::text_of("self")?;
    let mounts = lines(&text).filter_map(|line| parse_mount(line, controller));
    let mounts: Vec<Mount> = mounts.filter(is_visible).collect();
    let own = own_names(&mounts, controller);
    let placed = mounts.into_iter().filter_map(|mount| {
        let name = own_name(&named, mount.version)?;
        let dir = mount.below(name, own_name(&own, mount.version))?;
        Some((mount.version, dir, mount.point))
    });
    Ok(placed.collect())
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
    let id = number(fields.next()?)?;
    let root = fields.nth(2)?;
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
        id,
        version,
        root: path(root),
        point: path(point),
    })
}

/// Picks the one hierarchy that has the memory controller, and finds the group's directory in it: below the
/// first mount that shows it, else the first mount's top. `has_memory` shows whether a v2 mount has the
/// controller, `place` where a group of this name is below a mount.
pub fn choose(
    membership: &Membership,
    mounts: &[Mount],
    has_memory: &dyn Fn(&Mount) -> bool,
    place: &dyn Fn(&Mount, &Path) -> Option<PathBuf>,
) -> Option<Location> {
    let mut nearest = None;
    for mount in mounts {
        let name = match mount.version {
            Version::V1 => membership.memory_v1.as_deref(),
            Version::V2 => membership.unified.as_deref(),
        };
        let Some(name) = name else { continue };
        if mount.version == Version::V2 && !has_memory(mount) {
            continue;
        }
        let below = place(mount, name);
        let location = Location {
            version: mount.version,
            exact: below.is_some(),
            dir: below.unwrap_or_else(|| mount.point.clone()),
            mount: mount.point.clone(),
        };
        if location.exact {
            return Some(location);
        }
        nearest.get_or_insert(location);
    }
    nearest
}

/// Whether a name leaves the namespace (`..`).
fn climbs(name: &Path) -> bool {
    name.components()
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
