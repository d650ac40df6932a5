//! Time that the work for each user costs the deciding thread. Only the broker's own user and root, who rule
//! here, may cost as much as they like.

use super::settings::rules;
use crate::fair_queue::Spending;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;

/// Bound on the work for one user (its calls, reading its processes, ticks that it asks for): one
/// in this many nanoseconds of this thread, and the longest burst.
const SPENT_ONE_IN: u64 = 5;
const SPENT_BURST: Nanos = Nanos::millis(50);

/// Time that each user has cost. Belongs to the deciding thread.
#[derive(Debug)]
pub(super) struct UserTime {
    /// The broker's own uid.
    ours: u32,
    spending: Spending,
}

impl UserTime {
    /// Nobody has cost anything; `ours` is the broker's uid.
    pub(super) fn new(ours: u32) -> UserTime {
        UserTime {
            ours,
            spending: Spending::new(SPENT_ONE_IN, SPENT_BURST),
        }
    }

    /// Whether more may be done for a user at `now`.
    pub(super) fn may(&self, uid: u32, now: Nanos) -> bool {
        rules(self.ours, uid) || self.spending.may(uid, now)
    }

    /// Begins work for a user. Returns the time; `None` where it is not counted.
    pub(super) fn begin(&self, uid: u32) -> Option<Nanos> {
        (!rules(self.ours, uid)).then(clock::now)
    }

    /// The work that began then has ended.
    pub(super) fn end(&mut self, uid: u32, began: Option<Nanos>) {
        if let Some(began) = began {
            let ended = clock::now();
            self.spending.spend(uid, ended - began, ended);
        }
    }

    /// Other work for a user took that long.
    pub(super) fn spend(&mut self, uid: u32, took: Nanos, now: Nanos) {
        if !rules(self.ours, uid) {
            self.spending.spend(uid, took, now);
        }
    }

    /// Forgets users who have cost nothing lately.
    pub(super) fn sweep(&mut self, now: Nanos) {
        self.spending.sweep(now);
    }
}
