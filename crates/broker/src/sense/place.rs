//! Where a process sits: what rules look at, and the cgroup that bounds it.

use crate::config::Facts;
use plimsoll_kernel::cgroup::{Cgroup, MAX_DEPTH};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::reader::read_text;
use std::path::{Path, PathBuf};

/// Longest `/proc/PID/cgroup` that is read, bytes.
const MAX_TEXT: usize = 64 << 10;

/// What rules look at. What cannot be read is empty, and matches only `*`.
#[must_use]
pub fn facts_of(process: &Process) -> Facts {
    let mut text = Vec::new();
    let path = PathBuf::from(format!("/proc/{}/cgroup", process.pid()));
    let _ = read_text(&path, MAX_TEXT, &mut text);
    let (cgroup, unit) = parse_groups(&String::from_utf8_lossy(&text));
    let executable = process.exe().ok().flatten();
    Facts {
        cgroup,
        unit,
        uid: process.uid().unwrap_or(u32::MAX),
        executable: executable.map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
    }
}

/// The memory controller's group (else the unified one), and the systemd unit.
fn parse_groups(text: &str) -> (String, String) {
    let (mut memory, mut unified, mut systemd) = ("", "", "");
    for line in text.lines().take(MAX_DEPTH) {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (
            fields.next(),
            fields.next().unwrap_or(""),
            fields.next().unwrap_or(""),
        );
        match controllers {
            "" if number == Some("0") => unified = path,
            "name=systemd" => systemd = path,
            _ if controllers.split(',').any(|name| name == "memory") => memory = path,
            _ => {}
        }
    }
    let path = if memory.is_empty() { unified } else { memory };
    let units = if systemd.len() > 1 { systemd } else { unified };
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    let unit = units.rsplit('/').find(is_unit).unwrap_or("");
    (path.to_owned(), unit.to_owned())
}

/// The innermost cgroup above `pid` that has a limit below `capacity` and does not bound the broker
/// too; `None` when there is none, or no cgroup can be read.
#[must_use]
pub fn limiting_group(pid: i32, capacity: u64, ours: &Path) -> Option<PathBuf> {
    let mut group = Cgroup::of(pid).ok()??;
    for _ in 0..MAX_DEPTH {
        if ours.starts_with(group.dir()) {
            return None;
        }
        let limit = group.limit().ok().flatten();
        if limit.is_some_and(|limit| limit < capacity) {
            return Some(group.dir().to_path_buf());
        }
        group = group.parent().ok()??;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_units_of_both_versions_are_found() {
        let v1 =
            "5:cpu:/x\n4:memory:/user.slice\n1:name=systemd:/system.slice/a.service/sub\n0::/\n";
        assert_eq!(parse_groups(v1), ("/user.slice".into(), "a.service".into()));
        let v2 = "0::/user.slice/user-1.slice/session-2.scope\n";
        assert_eq!(
            parse_groups(v2),
            (
                "/user.slice/user-1.slice/session-2.scope".into(),
                "session-2.scope".into()
            )
        );
        assert_eq!(
            parse_groups("garbage\n\n::::"),
            (String::new(), String::new())
        );
    }
}
