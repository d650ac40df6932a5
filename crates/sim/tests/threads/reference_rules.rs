//! The disciplines once more, as the documentation says them: what a quantum is, and which ready thread goes
//! first.

use plimsoll_policy::phases::{Quanta, Rule, Ties, Used};
use plimsoll_unit::Nanos;

/// A discipline with its settings.
pub(crate) struct Literal {
    pub(crate) rule: Rule,
    pub(crate) quanta: Quanta,
    pub(crate) ties: Ties,
}

impl Literal {
    /// The longest that a thread runs, nanoseconds.
    pub(crate) fn time(&self) -> u64 {
        match self.rule {
            Rule::RoundRobin | Rule::Larf => self.quanta.time.0,
            Rule::Mqrr => self.quanta.most.0,
        }
    }

    /// Whether a thread that used this much has to let others go first.
    pub(crate) fn is_over(&self, used: Used) -> bool {
        let is_full = self.rule == Rule::Mqrr && used.bytes >= self.quanta.bytes;
        is_full || used.time >= Nanos(self.time())
    }

    /// The place in the order of a thread that becomes ready, which had the place `before` and ran for
    /// `used`: the smallest goes first. Under LARF it is the rate in bytes per quantum. A run shorter than a
    /// quantum counts for its part of it, and the rate before for the rest.
    pub(crate) fn rank(&self, before: u64, used: Used) -> u64 {
        if self.rule != Rule::Larf {
            return 0;
        }
        let (time, bytes) = (u128::from(used.time.0), u128::from(used.bytes.0));
        let quantum = u128::from(self.quanta.time.0);
        let rate = if time > quantum {
            bytes * quantum / time
        } else {
            u128::from(before) * (quantum - time) / quantum + bytes
        };
        rate.min(u128::from(u64::MAX)) as u64
    }

    /// Whether of two threads in one place that became ready last goes first.
    pub(crate) fn newest_first(&self) -> bool {
        self.rule == Rule::Larf && self.ties == Ties::Newest
    }
}
