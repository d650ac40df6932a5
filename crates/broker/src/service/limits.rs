//! Kernel limits that the broker sets for itself.

use plimsoll_kernel::descriptors;
use plimsoll_kernel::pin::lock_own_memory;

/// Locks touched memory, now and later, so that the broker never waits for paging itself.
pub fn lock_memory() {
    match lock_own_memory() {
        Ok(true) => {}
        Ok(false) => tracing::debug!(
            "memory is not locked: LimitMEMLOCK=infinity or CAP_IPC_LOCK would allow it"
        ),
        Err(error) => tracing::debug!(%error, "memory is not locked"),
    }
}

/// Raises the limit of open files to the allowed maximum; a principal needs about eight.
pub fn raise_descriptors() {
    if let Err(error) = descriptors::raise_limit() {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
