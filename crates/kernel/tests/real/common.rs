//! What the tests on the real kernel share: one at a time, own group, own swap.

use plimsoll_testbed::{Child, SwapFile, TestCgroup, programs, skip};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Long enough for a busy machine; nothing is asserted about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const MIB: u64 = 1 << 20;

/// Pressure tests run one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: OnceLock<Mutex<()>> = OnceLock::new();
    ONE.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A group with a limit, or a message why there is none.
pub(crate) fn group(name: &str, limit: Option<u64>) -> Option<TestCgroup> {
    match TestCgroup::new(name, limit) {
        Ok(group) => Some(group),
        Err(e) => {
            skip(format_args!("no cgroup of our own here: {e}"));
            None
        }
    }
}

/// Swap of our own, or a message why there is none.
pub(crate) fn swap(bytes: u64) -> Option<SwapFile> {
    match SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), bytes) {
        Ok(file) => Some(file),
        Err(e) => {
            skip(format_args!("no swap file of our own here: {e}"));
            None
        }
    }
}

/// Not a test of its own: the misbehaving programs of the tests are this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

/// Starts a misbehaving program.
pub(crate) fn start(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    Child::start_again("common::program", arguments, group).expect("this binary starts again")
}

/// Starts one and waits until it holds what it was asked for.
pub(crate) fn start_holding(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    let mut child = start(arguments, group);
    child
        .until(PATIENCE, |p| p.holding)
        .expect("it gets its memory");
    child
}
