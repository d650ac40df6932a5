//! How often collections may be asked for.

/// The time over which the share holds, nanoseconds. The share of this time can be saved up, and
/// half of it borrowed when the limit has just changed.
const SPAN: f64 = 60.0e9;
/// First and longest pause between two urgent collections that did not help, nanoseconds.
const PATIENCE: (u64, u64) = (250_000_000, 30_000_000_000);

/// A bucket of collection time that fills with wall-clock time.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The part of the time that collections may take, at most 1.
    share: f64,
    /// Collection time in stock, nanoseconds; negative when in debt.
    saved: f64,
    /// When time was last added; `None` at first.
    last_ns: Option<u64>,
    /// The smoothed cost of one collection, nanoseconds.
    cost: f64,
    /// The next pause after a collection that does not help, nanoseconds.
    patience: u64,
    /// No urgent collection before this time, nanoseconds.
    not_before: u64,
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
            last_ns: None,
            cost: 0.0,
            patience: PATIENCE.0,
            not_before: 0,
        }
    }

    pub(super) fn pass(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        self.saved =
            (self.saved + passed as f64 * self.share).min((SPAN * self.share).max(self.cost * 2.0));
    }

    pub(super) fn spend(&mut self, took_ns: u64) {
        let took = took_ns as f64;
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
    pub(super) fn must(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before
    }

    /// Forgets collections that did not help, because the limit changed and they may help now.
    pub(super) fn renew(&mut self) {
        self.patience = PATIENCE.0;
        self.not_before = 0;
    }

    /// Notes whether an urgent collection helped.
    pub(super) fn judged(&mut self, helped: bool, now_ns: u64) {
        self.patience = if helped {
            PATIENCE.0
        } else {
            (self.patience * 2).min(PATIENCE.1)
        };
        self.not_before = now_ns.saturating_add(if helped { 0 } else { self.patience });
    }
}
