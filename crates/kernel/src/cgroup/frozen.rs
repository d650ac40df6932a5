//! Whether a process's group is frozen, so that nothing in it runs. Source: kernel documents
//! `cgroup-v1/freezer-subsystem.rst`, `cgroup-v2.rst` (`cgroup.freeze`, `cgroup.events`).

use super::MAX_DEPTH;
use super::find::{Version, groups};
use crate::Result;
use crate::reader::read_text;
use std::path::{Path, PathBuf};

/// The controller of version 1.
const CONTROLLER: &[u8] = b"freezer";
/// Longest text read here, bytes.
const MAX_STATE: usize = 4096;

/// Whether the group of this process, or one above it, is frozen or being frozen, so that nothing
/// of the process runs. `false` if its groups are hidden.
///
/// # Errors
/// As [`super::locate`].
pub fn is_frozen(pid: i32) -> Result<bool> {
    let frozen = |(version, dir, top): &(Version, PathBuf, PathBuf)| match version {
        // This state includes that of the groups above.
        Version::V1 => state_matches(dir, "freezer.state", |text| !text.starts_with(b"THAWED")),
        Version::V2 => is_frozen_v2(dir, top),
    };
    Ok(groups(pid, CONTROLLER)?.iter().any(frozen))
}

/// Looks at each group up to `top`, because a group's file shows only what was asked of that group.
fn is_frozen_v2(dir: &Path, top: &Path) -> bool {
    dir.ancestors()
        .take(MAX_DEPTH)
        .take_while(|above| above.starts_with(top))
        .any(|above| state_matches(above, "cgroup.freeze", |text| text.starts_with(b"1")))
}

fn state_matches(dir: &Path, file: &str, what: impl Fn(&[u8]) -> bool) -> bool {
    let mut text = Vec::new();
    let read = read_text(&dir.join(file), MAX_STATE, &mut text);
    read.is_ok() && !text.is_empty() && what(&text)
}
