//! Programs of a user without rights.

use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::skip;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command that runs the words after it as a user without rights.
pub const AS_NOBODY: [&str; 5] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
];

/// A folder that another user may enter, with our program in it. If we cannot become another user, says so
/// and returns `None`.
pub fn folder() -> Option<(tempfile::TempDir, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        skip("another user needs root");
        return None;
    }
    let folder = tempfile::Builder::new()
        .prefix("plimsoll-test-rights-")
        .tempdir_in("/var/tmp")
        .unwrap();
    open(folder.path());
    let own = folder.path().join("plimsoll");
    copy_program(super::OWN, &own).unwrap();
    let mut may = Command::new(AS_NOBODY[0]);
    let may = may
        .args(&AS_NOBODY[1..])
        .arg(&own)
        .arg("--version")
        .output();
    if may.is_ok_and(|output| output.status.success()) {
        return Some((folder, own));
    }
    skip("another user cannot run what is in /var/tmp");
    None
}

/// Lets others enter and read a folder.
pub fn open(folder: &Path) {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
}
