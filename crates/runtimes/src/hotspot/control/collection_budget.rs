//! How often collections may be asked for.

use plimsoll_unit::Nanos;

/// The time over which the share holds, nanoseconds. The share of this time can be saved up, and
/// half of it borrowed when the limit has just changed.
const SPAN: f64 = 60.0e9;
/// First and longest pause between two urgent collections that did not help.
const PATIENCE: (Nanos, Nanos) = (Nanos::millis(250), Nanos::seconds(30));

/// A bucket of collection time that fills with wall-clock time.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The part of the time that collections may take, at most 1.
    share: f64,
    /// Collection time in stock, nanoseconds; negative when in debt.
    saved: f64,
    /// When time was last added; `None` at first.
    last: Option<Nanos>,
    /// The smoothed cost of one collection, nanoseconds.
    cost: f64,
    /// The next pause after a collection that does not help.
    patience: Nanos,
    /// No urgent collection before this time.
    not_before: Nanos,
}

impl Allowance {
    pub(super) fn new(share: f64) -> Allowance {
        let share = if share.is_finite() {
            share.clamp(0.001, 1.0)
        } else {
            0.05
        };
        Allowance {
            share,
            saved: share * SPAN / 2.0,
            last: None,
            cost: 0.0,
            patience: PATIENCE.0,
            not_before: Nanos::ZERO,
        }
    }

    pub(super) fn pass(&mut self, now: Nanos) {
        let passed = now - self.last.replace(now).unwrap_or(now);
        self.saved = (self.saved + passed.0 as f64 * self.share)
            .min((SPAN * self.share).max(self.cost * 2.0));
    }

    pub(super) fn spend(&mut self, took: Nanos) {
        let took = took.0 as f64;
        self.cost = if self.cost == 0.0 {
            took
        } else {
            self.cost * 0.7 + took * 0.3
        };
        // The debt is bounded, so that many urgent collections do not rule out others for the next
        // hour.
        self.saved = (self.saved - took).max(-SPAN * self.share / 2.0);
    }

    /// The cost of one collection, nanoseconds; 0 until one was asked for.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    /// Whether enough time was saved for this many collections. If the limit has just `changed`,
    /// time can also be borrowed.
    pub(super) fn may(&self, collections: u32, changed: bool) -> bool {
        let borrowed = if changed {
            self.share * SPAN / 2.0
        } else {
            0.0
        };
        self.saved + borrowed >= self.cost * f64::from(collections.max(1))
    }

    /// Whether a collection may be asked for above the limit. The share does not bind then, only the pause
    /// after collections that did not help. (A heap of one size keeps to both, until it owes memory.)
    pub(super) fn must(&self, now: Nanos) -> bool {
        now >= self.not_before
    }

    /// Forgets collections that did not help, because the limit changed and they may help now.
    pub(super) fn renew(&mut self) {
        self.patience = PATIENCE.0;
        self.not_before = Nanos::ZERO;
    }

    /// Notes whether an urgent collection helped.
    pub(super) fn judged(&mut self, helped: bool, now: Nanos) {
        self.patience = if helped {
            PATIENCE.0
        } else {
            (self.patience * 2).min(PATIENCE.1)
        };
        self.not_before = now + if helped { Nanos::ZERO } else { self.patience };
    }
}
