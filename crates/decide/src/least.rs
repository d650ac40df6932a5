//! The least that a program can go down to. A program that was asked for memory and gave nearly none, or
//! that uses no more than its adapter calls its floor, is at its least. It is not asked again for a
//! while, unless another program waits for what it is guaranteed.

use super::debt::{Debt, slop, tolerance};
use super::node::Node;
use plimsoll_unit::Nanos;

/// Shortest time after a deadline in which a program may still give something.
const AFTER: Nanos = Nanos::seconds(1);
/// After this time it is asked again: it may have changed.
const AGAIN: Nanos = Nanos::seconds(300);
/// Growth beyond its least by less than this (or an eighth) gives it nothing to give back, bytes.
const GROWTH: u64 = 16 << 20;
/// Less than this part of a debt is as good as nothing.
const PART: u64 = 8;

/// A size that a program proved not to be able to go below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    /// Use when it was asked in vain, bytes.
    bytes: u64,
    /// When that was, in core time.
    at: Nanos,
}

impl Least {
    /// Whether a program that uses this much is still at its least.
    fn holds(&self, uses: u64, now: Nanos) -> bool {
        let band = (self.bytes / PART).max(GROWTH);
        let fell = uses.saturating_add(self.bytes / PART) < self.bytes;
        let grew = uses > self.bytes.saturating_add(band);
        !fell && !grew && now - self.at < AGAIN
    }

    /// The least size that a debt proves: its deadline passed and nothing came.
    fn of_debt(debt: &Debt, uses: u64, reaction: Nanos, now: Nanos) -> Option<Least> {
        let waited = debt.deadline + reaction.max(AFTER);
        let paid = debt.from.saturating_sub(uses);
        let asked = debt.from.saturating_sub(debt.due);
        (now >= waited && paid < asked / PART).then_some(Least {
            bytes: uses,
            at: now,
        })
    }
}

impl Node {
    /// Learns from the debt of this tick, and forgets what does not hold any more.
    pub(super) fn learn_least(&mut self, now: Nanos) {
        let holds = |least: &Least| self.adaptive && least.holds(self.sensed.uses, now);
        self.needs.least = self.needs.least.filter(holds);
        if let Some(debt) = self.debt.filter(|_| self.adaptive) {
            let learned = Least::of_debt(&debt, self.sensed.uses, self.reaction(), now);
            self.needs.least = self.needs.least.or(learned);
        }
    }

    /// Bytes below which it cannot go, as far as is known; 0 otherwise.
    pub(super) fn least(&self) -> u64 {
        let floor = self.reported().floor.unwrap_or(0);
        // A program with less than its floor did go below it.
        let has = self.sensed.uses.saturating_add(self.sensed.swapped);
        let is_true = floor - floor / PART <= has;
        let told = is_true && self.sensed.uses <= floor.saturating_add(tolerance(floor));
        if self.adaptive && (told || self.needs.least.is_some()) {
            self.sensed.uses
        } else {
            0
        }
    }

    /// Whether it has more than it should, and cannot go lower.
    pub(super) fn is_at_least(&self) -> bool {
        let target = self.limits.share.target;
        let above = self.sensed.uses > target.saturating_add(slop(target));
        above && self.least() > 0 && self.debt.is_none()
    }
}
