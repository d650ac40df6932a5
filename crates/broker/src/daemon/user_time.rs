//! Time that the work for each user costs the deciding thread. Only the broker's own user and root, who rule
//! here, may cost as much as they like.

use super::settings::rules;
use crate::fair_queue::Spending;
use plimsoll_kernel::clock;

/// Bound on the work for one user (its calls, reading its processes, ticks that it asks for): one
/// in this many nanoseconds of this thread, and the longest burst in ns.
const SPENT_ONE_IN: u64 = 5;
const SPENT_BURST_NS: u64 = 50_000_000;

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
            spending: Spending::new(SPENT_ONE_IN, SPENT_BURST_NS),
        }
    }

    /// Whether more may be done for a user at `now` (ns).
    pub(super) fn may(&self, uid: u32, now: u64) -> bool {
        rules(self.ours, uid) || self.spending.may(uid, now)
    }

    /// Begins work for a user. Returns the time, ns; `None` where it is not counted.
    pub(super) fn begin(&self, uid: u32) -> Option<u64> {
        (!rules(self.ours, uid)).then(|| clock::now().0)
    }

    /// The work that began then has ended.
    pub(super) fn end(&mut self, uid: u32, began: Option<u64>) {
        if let Some(began) = began {
            let ended = clock::now().0;
            self.spending.spend(uid, ended.saturating_sub(began), ended);
        }
    }

    /// Other work for a user takes `ns` nanoseconds.
    pub(super) fn spend(&mut self, uid: u32, ns: u64, now: u64) {
        if !rules(self.ours, uid) {
            self.spending.spend(uid, ns, now);
        }
    }

    /// Forgets users who have cost nothing lately.
    pub(super) fn sweep(&mut self, now: u64) {
        self.spending.sweep(now);
    }
}
