//! The place of a process: the properties that rules match, and the cgroup that binds it.

use crate::config::Facts;
use plimsoll_kernel::Result;
use plimsoll_kernel::cgroup::{Cgroup, MAX_DEPTH, Membership, membership};
use plimsoll_kernel::process::Process;
use plimsoll_unit::Bytes;
use std::path::{Path, PathBuf};

/// The properties that rules match. An unreadable one is empty, and only `*` matches it.
#[must_use]
pub fn facts_of(process: &Process) -> Facts {
    let (cgroup, units) = groups(&membership(process.pid()).unwrap_or_default());
    let executable = process.exe().ok().flatten();
    Facts {
        cgroup,
        unit: innermost_unit(&units).to_owned(),
        system_unit: system_unit(&units).to_owned(),
        uid: process.uid().unwrap_or(u32::MAX),
        executable: executable.map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
    }
}

/// The memory controller's group (otherwise the unified one), and the group with the systemd units.
fn groups(of: &Membership) -> (String, String) {
    let name = |path: Option<&PathBuf>| {
        path.map_or_else(String::new, |path| path.to_string_lossy().into_owned())
    };
    let (unified, systemd) = (name(of.unified.as_ref()), name(of.systemd.as_ref()));
    let memory = name(of.memory_v1.as_ref().or(of.unified.as_ref()));
    let units = if systemd.len() > 1 { systemd } else { unified };
    (memory, units)
}

fn is_unit(part: &str) -> bool {
    part.ends_with(".service") || part.ends_with(".scope")
}

fn innermost_unit(path: &str) -> &str {
    let found = path.rsplit('/').find(|part| is_unit(part));
    found.unwrap_or("")
}

/// The unit of the system's manager: slices belong to the manager, and everything below the first
/// service or scope may be made by any user.
fn system_unit(path: &str) -> &str {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = parts.find(|part| !part.ends_with(".slice"));
    first.filter(|part| is_unit(part)).unwrap_or("")
}

/// The innermost cgroup of `pid` whose limit is below `capacity` and that does not bind the broker
/// as well; `None` when there is none.
///
/// # Errors
/// When the process has exited, or a cgroup cannot be read.
pub fn limiting_group(pid: i32, capacity: Bytes, ours: &Path) -> Result<Option<PathBuf>> {
    let mut next = Cgroup::of(pid)?;
    for _ in 0..MAX_DEPTH {
        let Some(group) = next.filter(|group| !ours.starts_with(group.dir())) else {
            return Ok(None);
        };
        if group.limit()?.is_some_and(|limit| limit < capacity) {
            return Ok(Some(group.dir().to_path_buf()));
        }
        next = group.parent()?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::cgroup::parse_membership;

    #[test]
    fn groups_and_units_of_both_versions_are_found() {
        let v1 =
            b"5:cpu:/x\n4:memory:/user.slice\n1:name=systemd:/system.slice/a.service/sub\n0::/\n";
        let (memory, units) = groups(&parse_membership(v1));
        assert_eq!(
            (memory.as_str(), innermost_unit(&units)),
            ("/user.slice", "a.service")
        );
        let session = "/user.slice/user-1.slice/session-2.scope";
        let v2 = format!("0::{session}\n");
        assert_eq!(
            groups(&parse_membership(v2.as_bytes())),
            (session.into(), session.into())
        );
        assert_eq!(innermost_unit(session), "session-2.scope");
        assert_eq!(
            groups(&parse_membership(b"garbage\n\n::::")),
            (String::new(), String::new())
        );
    }

    #[test]
    fn a_unit_that_a_user_can_make_is_none_of_the_systems() {
        for (path, unit) in [
            ("/system.slice/db.service", "db.service"),
            (
                "/system.slice/system-db.slice/db@1.service/sub",
                "db@1.service",
            ),
            (
                "/user.slice/user-1.slice/user@1.service/app.slice/db.service",
                "user@1.service",
            ),
            ("/docker/0a1b/system.slice/db.service", ""),
            ("/../db.service", ""),
            ("/system.slice", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(system_unit(path), unit, "{path}");
        }
    }
}
