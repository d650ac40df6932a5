//! Support for the tests on real processes: one test at a time, own group, own swap, programs that
//! hold still.

use plimsoll_kernel::process::Process;
use plimsoll_testbed::{Child, SwapFile, TestCgroup, children, programs, skip};
use plimsoll_unit::Bytes;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Long enough for a busy machine; nothing is asserted about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The tests run one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group with a limit, or a message why there is none.
pub(crate) fn group(name: &str, limit: u64) -> Option<TestCgroup> {
    TestCgroup::new(name, Some(Bytes(limit)))
        .map_err(|e| skip(format_args!("no cgroup of our own here: {e}")))
        .ok()
}

/// Swap of our own, or a message why there is none.
pub(crate) fn swap(bytes: u64) -> Option<SwapFile> {
    SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes(bytes))
        .map_err(|e| skip(format_args!("no swap file of our own here: {e}")))
        .ok()
}

/// Not a test of its own: the misbehaving programs of the tests are this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

/// Starts a misbehaving program and waits until it holds what it was asked for.
pub(crate) fn start(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    let mut child =
        Child::start_again("common::program", arguments, group).expect("this binary starts again");
    child
        .until(PATIENCE, |p| p.holding)
        .expect("it gets its memory");
    child
}

/// Stops a program.
pub(crate) fn stop(child: &Child) -> Arc<Process> {
    children::stop(child.pid().unsigned_abs(), PATIENCE);
    Arc::new(Process::open(child.pid()).unwrap())
}
