//! A program that forks, as runtimes with several processes do: MMTk stops its workers before, and starts
//! them in both processes after.

use super::{CHURNED, churn};
use crate::heap::control;
use crate::thread::Attached;
use crate::vm::mmtk;
use mmtk::util::VMThread;
use plimsoll_mmtk::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The bound that the program sets itself by hand. A broker's would be lifted in the child.
const BOUND: Bytes = Bytes::mib(24);
/// Allocation of each process, bytes.
const WORK: u64 = 64 << 20;

/// Forks under a bound. Tells what the child found: whether it ended well, collected, and is bound still. The
/// parent goes on under its bound.
pub(crate) fn fork() -> Value {
    let Some(control) = control() else {
        return json!(null);
    };
    control.bound(BOUND);
    let worked = works();
    mmtk().prepare_to_fork();
    while threads() > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: this thread is the only one, so that no lock is held by another that the child lacks.
    let child = unsafe { libc::fork() };
    mmtk().after_fork(VMThread::UNINITIALIZED);
    let before = control.figures().collections;
    let worked = worked && works();
    let collected = control.figures().collections > before;
    if child == 0 {
        let is_bound = control.limit() <= BOUND;
        let code = i32::from(!worked) | i32::from(!collected) << 1 | i32::from(!is_bound) << 2;
        // SAFETY: ends the process without the destructors of the parent's library.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: a child of ours, and a place for its status.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    json!({
        "child": (ended == child).then_some(status),
        "worked": worked && collected,
        "bound": control.limit() <= BOUND,
    })
}

/// Allocates for some time.
fn works() -> bool {
    let until = CHURNED.load(Ordering::Relaxed) + WORK;
    let done = || CHURNED.load(Ordering::Relaxed) >= until;
    churn(&mut Attached::new(), done).is_some()
}

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
