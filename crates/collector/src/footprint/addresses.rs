//! What bounds the addresses of this process (`ulimit -v`).

use super::memory::{PLENTY, REST};
use plimsoll_heap::{Central, SUPERPAGE};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own::{self, Addresses};
use plimsoll_policy::footprint::{Beside, Bound};
use std::time::Instant;

/// The last look at the limit of addresses.
#[derive(Default)]
pub(super) struct AddressLook {
    /// When there was plenty of addresses, and for how many bytes.
    plenty: Option<(Instant, u64)>,
    /// What the program takes beside the heap.
    beside: Beside,
}

impl AddressLook {
    /// The bound by addresses, where these are limited (`ulimit -v`) and the heap is to have more
    /// than a small part of them: `wanted` bytes. There is nothing to page out then: who needs an
    /// address and has none, ends.
    pub(super) fn look(&mut self, central: &Central, wanted: u64) -> Option<Bound> {
        let lately = |then: &(Instant, u64)| wanted < then.1 && then.0.elapsed() < REST;
        if self.plenty.as_ref().is_some_and(lately) {
            return None;
        }
        let Some(Addresses { limit, left }) = own::addresses() else {
            self.plenty = Some((Instant::now(), u64::MAX));
            return None;
        };
        let has = (central.committed() * SUPERPAGE) as u64;
        let beside = limit.saturating_sub(left + has);
        self.beside.look(clock::now().0, beside);
        let left = left + has.saturating_sub((central.used() * SUPERPAGE) as u64);
        self.plenty = Some((Instant::now(), left / PLENTY));
        (wanted >= left / PLENTY).then(|| Bound::Cliff {
            left,
            free: left,
            margin: self.beside.margin(limit),
            granted: u64::MAX,
        })
    }
}
