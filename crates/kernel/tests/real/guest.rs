//! All the other tests of this binary once more, on a machine with cgroup version 2: QEMU with a Debian kernel, booted into this very binary.
//! Takes about a minute; needs no rights. `PLIMSOLL_GUEST_KERNEL` names a kernel image instead of the one that is downloaded.

use crate::common::alone;
use std::path::Path;
use std::process::Command;

/// Exit codes of `run.sh`.
const CANNOT_RUN: i32 = 77;

#[test]
fn everything_holds_under_version_2() {
    let _one = alone();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/guest");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    std::fs::create_dir_all(&work).unwrap();
    let output = Command::new("sh")
        .arg(here.join("run.sh"))
        .args([
            work.as_path(),
            Path::new(env!("CARGO_TARGET_TMPDIR")),
            Path::new(""),
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(env!("CARGO_BIN_EXE_plimsoll-misbehave"))
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
