//! The tests that need cgroups once more, on a machine with cgroup version 2: QEMU with a Debian kernel, booted into this very binary by the
//! kernel room's script. Takes about a minute; needs no rights.

use std::path::Path;
use std::process::Command;

/// Exit codes of `run.sh`.
const CANNOT_RUN: i32 = 77;

#[test]
fn groups_and_the_ladder_hold_under_version_2() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/real/guest/run.sh");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let work = scratch.join("guest-broker");
    std::fs::create_dir_all(&work).expect("a directory");
    let output = Command::new("sh")
        .arg(script)
        .args([work.as_path(), scratch, Path::new("groups::a_ ladder::")])
        .arg(std::env::current_exe().expect("our path"))
        .arg(env!("CARGO_BIN_EXE_plimsolld"))
        .output()
        .expect("a shell runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(CANNOT_RUN) {
        println!("skipped: see the line above for what is missing");
        return;
    }
    assert!(output.status.success(), "the tests failed in the guest");
    assert!(said.contains("test result: ok"), "the guest never reported");
    assert!(
        !said.contains("skipped: no cgroup"),
        "the guest had no cgroup to test"
    );
}
