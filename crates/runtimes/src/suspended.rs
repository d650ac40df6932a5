//! Processes that stand still. A signal reaches them only when they go on.

use crate::process::Status;
use plimsoll_kernel::cgroup::is_frozen;

/// How a process with this status stands still (by a signal, a debugger or a frozen cgroup), in
/// words; `None` if it runs.
pub(crate) fn how(pid: u32, status: &Status) -> Option<&'static str> {
    let frozen = || i32::try_from(pid).is_ok_and(|pid| is_frozen(pid).unwrap_or(false));
    match status.state {
        b'T' | b't' => Some("is stopped"),
        _ if frozen() => Some("is frozen with its group"),
        _ => None,
    }
}
