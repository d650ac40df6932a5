//! Processes that stand still: nothing that is sent to them reaches them now.

use crate::process::Status;
use plimsoll_kernel::cgroup::is_frozen;

/// What keeps a process of this status; a debugger stops it, too.
pub(crate) fn how(pid: u32, status: &Status) -> Option<&'static str> {
    let frozen = || i32::try_from(pid).is_ok_and(|pid| is_frozen(pid).unwrap_or(false));
    match status.state {
        b'T' | b't' => Some("is stopped"),
        _ if frozen() => Some("is frozen with its group"),
        _ => None,
    }
}
