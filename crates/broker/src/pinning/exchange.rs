//! The exchange of the deciding thread and the thread that holds pages.

use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Pinned;

/// Bounds on the pages that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory; `None` for the pinner's own bound.
    pub bytes: Option<Bytes>,
    /// Time over which refaults are counted.
    pub window: Nanos,
}

/// State that the deciding thread and the holding thread exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) processes: Vec<i32>,
    /// Whether the processes are new.
    pub(super) fresh: bool,
    /// Absent while `[pin]` is off.
    pub(super) settings: Option<Settings>,
    /// Whether the domain's reserve is nearly used up, or a principal waits for its share.
    pub(super) short: bool,
    pub(super) told: Option<Pinned>,
}
