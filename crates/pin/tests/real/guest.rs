//! Runs the tests of charging again in a virtual machine with cgroup version 2, as in `plimsoll-kernel`.

use crate::common::alone;
use plimsoll_testbed::guest::run_under_version_2;
use std::path::Path;

#[test]
fn pages_are_charged_alike_under_version_2() {
    let _one = alone();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_under_version_2("guest-pin", scratch, "charge::what charge::holding", &[]);
}
