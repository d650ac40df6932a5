//! A machine with cgroup version 2: QEMU with a Debian kernel, booted into a test binary. Needs no rights.

use std::path::Path;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/guest/run.sh");
/// Exit code of the script where something is missing.
const CANNOT_RUN: i32 = 77;

/// Runs this test binary there, with `programs` beside it: the tests that `filter` names (none: all), but those of a module `guest`. `scratch` keeps
/// what is fetched, below `name`, and is on a real file system in the guest. Where QEMU is missing it says so.
///
/// # Panics
/// When a test fails there, or the guest.
pub fn run_under_version_2(name: &str, scratch: &Path, filter: &str, programs: &[&Path]) {
    let work = scratch.join(name);
    std::fs::create_dir_all(&work).expect("a directory");
    let output = Command::new("sh")
        .arg(SCRIPT)
        .args([work.as_path(), scratch, Path::new(filter)])
        .arg(std::env::current_exe().expect("our path"))
        .args(programs)
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
