//! A program with more rights than the user who started it trusts no variable of that user.

use plimsoll_client::{Follower, Surroundings};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::skip;
use rustix::fs::{StatVfsMountFlags, XattrFlags};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65534;
/// `cap_net_bind_service=ep`, as the kernel keeps it (linux/capability.h).
const CAPABLE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Prints the variables that are trusted. The other test starts a copy of this program and reads
/// them.
#[test]
fn told() {
    let around = Surroundings::of_self();
    let page = Follower::of_environment("self", false).is_some();
    println!(
        "believes {:?} {:?} {page}",
        around.socket, around.runtime_dir
    );
}

/// The variables that a copy of this program trusts when another user starts it.
fn believed(copy: &Path, runtime: &Path) -> String {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(user).arg("--inh-caps=-all").arg(copy);
    command.args(["--exact", "told", "--nocapture"]);
    command.env("PLIMSOLL_SOCKET", "/named/broker.sock");
    command.env("PLIMSOLL_PAGE", "/named/page");
    command.env("PLIMSOLL_ID", "7");
    command.env("XDG_RUNTIME_DIR", runtime);
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn who_has_more_rights_than_who_started_it_believes_no_variable() {
    if !rustix::process::geteuid().is_root() {
        return skip("another user needs root");
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("copy");
    copy_program(std::env::current_exe().unwrap(), &copy).unwrap();
    let runtime = folder.path().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    chown(&runtime, Some(NOBODY), None).unwrap();
    let before = believed(&copy, &runtime);
    let all = format!("believes Some(\"/named/broker.sock\") Some({runtime:?}) true");
    assert!(before.contains(&all), "{before}");
    let volume = rustix::fs::statvfs(&copy).unwrap();
    let made = rustix::fs::setxattr(&copy, "security.capability", &CAPABLE, XattrFlags::empty());
    if made.is_err() || volume.f_flag.contains(StatVfsMountFlags::NOSUID) {
        return skip("files have no capabilities here");
    }
    let after = believed(&copy, &runtime);
    assert!(after.contains("believes None None false"), "{after}");
}
