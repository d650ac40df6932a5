//! Kernel limits that the broker sets for itself.

use plimsoll_kernel::capabilities::{CAP_IPC_LOCK, holds};
use plimsoll_kernel::descriptors;
use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, getrlimit};

/// Locks touched memory, now and later, so that the broker never waits for the paging of which it
/// warns. Only with an unlimited allowance: with a small one `MCL_FUTURE` would make later
/// allocations fail (mlock(2)). Returns whether memory is locked.
pub fn lock_memory() -> bool {
    let unlimited = getrlimit(Resource::Memlock).current.is_none();
    if !unlimited && !holds(CAP_IPC_LOCK) {
        tracing::debug!(
            "memory is not locked: LimitMEMLOCK=infinity or CAP_IPC_LOCK would allow it"
        );
        return false;
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    match rustix::mm::mlockall(flags) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "memory is not locked");
            false
        }
    }
}

/// Raises the limit of open files to the allowed maximum; a principal needs about eight.
pub fn raise_descriptors() {
    if let Err(error) = descriptors::raise_limit() {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
