//! How often collections may be asked for.

/// Over this time the share holds: so much of it can be saved up, and half of that borrowed for a
/// limit that has just changed, nanoseconds.
const SPAN: f64 = 60.0e9;
/// First and longest pause between two urgent collections that did not help, nanoseconds.
const PATIENCE: (u64, u64) = (250_000_000, 30_000_000_000);

/// A bucket of collection time that fills with wall-clock time.
#[derive(Debug)]
pub(super) struct Allowance {
    share: f64,
    saved: f64,
    last_ns: Option<u64>,
    /// What one collection cost, smoothed, nanoseconds.
    cost: f64,
    patience: u64,
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
        // A time of many urgent ones is not paid for during the next hour.
        self.saved = (self.saved - took).max(-SPAN * self.share / 2.0);
    }

    /// What one collection costs, nanoseconds; 0 until one was asked for.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    /// Enough was saved for that many collections; or can be borrowed, for a limit that has just changed.
    pub(super) fn may(&self, collections: u32, changed: bool) -> bool {
        let borrowed = if changed {
            self.share * SPAN / 2.0
        } else {
            0.0
        };
        self.saved + borrowed >= self.cost * f64::from(collections.max(1))
    }

    /// Memory is owed: the share does not bind, only the patience with collections that do not help does.
    pub(super) fn must(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before
    }

    /// The limit changed: what did not help before may help now.
    pub(super) fn renew(&mut self) {
        self.patience = PATIENCE.0;
        self.not_before = 0;
    }

    /// An urgent collection helped, or not.
    pub(super) fn judged(&mut self, helped: bool, now_ns: u64) {
        self.patience = if helped {
            PATIENCE.0
        } else {
            (self.patience * 2).min(PATIENCE.1)
        };
        self.not_before = now_ns.saturating_add(if helped { 0 } else { self.patience });
    }
}
