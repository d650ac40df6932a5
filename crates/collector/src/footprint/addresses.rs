//! The bound of the addresses of this process (`ulimit -v`).

use super::memory::{PLENTY, REST};
use plimsoll_heap::{Central, SUPERPAGE};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own::{self, Addresses};
use plimsoll_policy::footprint::{Beside, Bound};
use plimsoll_unit::Bytes;
use std::time::Instant;

/// The last look at the limit of addresses.
#[derive(Default)]
pub(super) struct AddressLook {
    /// When there was plenty of addresses, and for how much.
    plenty: Option<(Instant, Bytes)>,
    /// The addresses that the program takes beside the heap.
    beside: Beside,
}

impl AddressLook {
    /// The bound by addresses, where these are limited (`ulimit -v`) and the heap is to have more
    /// than a small part of them: `wanted`. There is nothing to page out then: who needs an
    /// address and has none, ends.
    pub(super) fn look(&mut self, central: &Central, wanted: Bytes) -> Option<Bound> {
        let lately = |then: &(Instant, Bytes)| wanted < then.1 && then.0.elapsed() < REST;
        if self.plenty.as_ref().is_some_and(lately) {
            return None;
        }
        let Some(Addresses { limit, left }) = own::addresses() else {
            self.plenty = Some((Instant::now(), Bytes::MAX));
            return None;
        };
        let (left, has) = (left, Bytes::from(central.committed() * SUPERPAGE));
        let beside = limit - (left + has);
        self.beside.look(clock::now(), beside);
        let left = left + (has - Bytes::from(central.used() * SUPERPAGE));
        self.plenty = Some((Instant::now(), left / PLENTY));
        (wanted >= left / PLENTY).then(|| Bound::Cliff {
            left,
            free: left,
            margin: self.beside.margin(limit),
            granted: Bytes::MAX,
        })
    }
}
