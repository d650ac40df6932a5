//! Shared by the tests on the real kernel: they run one at a time, in a cgroup of their own, with swap of
//! their own.

use plimsoll_testbed::{Child, SwapFile, TestCgroup, programs, skip};
use plimsoll_unit::Bytes;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// The longest wait, which is enough for a busy machine. Nothing is asserted about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A test under pressure holds this, so that these tests run one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: OnceLock<Mutex<()>> = OnceLock::new();
    ONE.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A cgroup with this limit. If none can be made, says why and returns `None`.
pub(crate) fn group(name: &str, limit: Option<u64>) -> Option<TestCgroup> {
    match TestCgroup::new(name, limit.map(Bytes)) {
        Ok(group) => Some(group),
        Err(e) => {
            skip(format_args!("no cgroup of our own here: {e}"));
            None
        }
    }
}

/// A swap file of this many bytes. If none can be made, says why and returns `None`.
pub(crate) fn swap(bytes: u64) -> Option<SwapFile> {
    match SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes(bytes)) {
        Ok(file) => Some(file),
        Err(e) => {
            skip(format_args!("no swap file of our own here: {e}"));
            None
        }
    }
}

/// This checks nothing: tests start this binary again to run a misbehaving program.
#[test]
fn program() {
    programs::run_as_asked();
}

/// Starts a misbehaving program.
pub(crate) fn start(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    Child::start_again("common::program", arguments, group).expect("this binary starts again")
}

/// Starts a misbehaving program, and waits until it holds the requested memory.
pub(crate) fn start_holding(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    let mut child = start(arguments, group);
    child
        .until(PATIENCE, |p| p.holding)
        .expect("it gets its memory");
    child
}

/// Whether this kernel notes which pages are used; if not, says so.
pub(crate) fn use_is_noted() -> bool {
    let noted = plimsoll_kernel::referenced::is_noted().unwrap();
    if !noted {
        skip("this kernel does not note which pages are used");
    }
    noted
}

/// Switches delay accounting on for new programs, and back to what it was.
pub(crate) struct DelayAccounting(Vec<u8>);

impl DelayAccounting {
    /// If it cannot be switched, says so and returns `None`.
    pub(crate) fn on() -> Option<DelayAccounting> {
        let switched = std::fs::read(SWITCH).and_then(|before| {
            std::fs::write(SWITCH, "1")?;
            Ok(DelayAccounting(before))
        });
        switched
            .map_err(|e| skip(format_args!("{SWITCH}: {e}")))
            .ok()
    }

    /// Whether it is on now.
    pub(crate) fn is_on() -> bool {
        std::fs::read(SWITCH).is_ok_and(|text| text.starts_with(b"1"))
    }
}

impl Drop for DelayAccounting {
    fn drop(&mut self) {
        let _ = std::fs::write(SWITCH, &self.0);
    }
}

const SWITCH: &str = "/proc/sys/kernel/task_delayacct";
