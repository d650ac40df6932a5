//! A smoothed level and its growth rate.
//!
//! The level follows the measurements with time constant `tau`. Behind a steady ramp it lags by
//! exactly rate x tau, so the distance divided by `tau` is the rate. Noise of a few MiB between two
//! ticks is divided as well, so it does not look like fast growth.

use plimsoll_unit::{Nanos, SECOND};

/// A smoothed level in bytes; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    now: u64,
    slow: i64,
    seen: bool,
}

impl Flow {
    /// Adds a measurement, `dt` after the previous one.
    pub(super) fn feed(&mut self, bytes: u64, dt: Nanos, tau: Nanos) {
        self.now = bytes;
        if !self.seen {
            self.seen = true;
            self.slow = signed(bytes);
            return;
        }
        // Growth in a long gap may have begun at its very end, so it counts as fast.
        let dt = if signed(bytes) > self.slow {
            dt.min(tau / 2)
        } else {
            dt
        };
        let (dt, tau) = (i128::from(dt.0), i128::from(tau.0.max(1)));
        let step = (i128::from(signed(bytes)) - i128::from(self.slow)) * dt / (tau + dt);
        self.slow = self.slow.saturating_add(step as i64);
    }

    /// Bytes per second; negative when shrinking.
    pub(super) fn rate(&self, tau: Nanos) -> i64 {
        let lag = i128::from(signed(self.now)) - i128::from(self.slow);
        let rate = lag * i128::from(SECOND) / i128::from(tau.0.max(1));
        rate.clamp(-(1 << 50), 1 << 50) as i64
    }

    /// Moves the level but not the rate: `by` bytes changed owner, and nobody grew.
    pub(super) fn shift(&mut self, by: i64) {
        self.slow = self.slow.saturating_add(by);
    }
}

/// Bytes as a signed number; real values are far below the bound.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Change over `time` at `rate` bytes per second.
pub(super) fn change(rate: i64, time: Nanos) -> i64 {
    (i128::from(rate) * i128::from(time.0) / i128::from(SECOND))
        .clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
