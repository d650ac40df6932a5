//! Runs the tests that need cgroups again on machines with cgroup version 2. Takes about half a
//! minute.

use plimsoll_testbed::guest::{run_in_user_mode, run_under_version_2};
use std::path::Path;

#[test]
fn groups_and_the_ladder_hold_under_version_2() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let broker = Path::new(env!("CARGO_BIN_EXE_plimsolld"));
    let filter = "groups::a_ ladder:: balance:: pin::";
    run_under_version_2("guest-broker", scratch, filter, &[broker]);
}

#[test]
fn groups_and_the_ladder_hold_in_user_mode() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_in_user_mode(
        "user-broker",
        scratch,
        "groups::a_ ladder:: first_process::",
    );
}
