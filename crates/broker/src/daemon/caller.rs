//! The process that calls the broker.

use crate::server::connection::Peer;
use crate::server::epoll::Slot;
use plimsoll_unit::Nanos;

/// The caller and the time of the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Its connection.
    pub(super) slot: Slot,
    /// Its uid and process id.
    pub(super) peer: Peer,
    /// Time of the call.
    pub(super) now: Nanos,
}
