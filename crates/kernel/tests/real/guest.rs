//! Runs all the other tests of this binary once more, in a virtual machine with cgroup version 2. Takes about
//! a minute, and needs no rights. `PLIMSOLL_GUEST_KERNEL` names a kernel image to use instead of the
//! downloaded one.

use crate::common::alone;
use plimsoll_testbed::guest::{run_in_user_mode, run_under_version_2};
use std::path::Path;

#[test]
fn everything_holds_under_version_2() {
    let _one = alone();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_under_version_2("guest", scratch, "", &[]);
}

/// Groups and their processes on Linux 6.1, without pressure stall information, `PAGEMAP_SCAN` and the
/// multi-generational LRU. Not the tests of pages: this kernel on top of another does not see which pages
/// were used, and numbers shared memory in another way.
#[test]
fn groups_hold_in_user_mode() {
    let _one = alone();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_in_user_mode("user", scratch, "limits:: processes:: balance::");
}
