//! A stretch of time in which only one processor does anything.

/// How long the steps of a processor may go on without a look at the others. Times are nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    /// Whether the order of what happens next may be another one than before the last step.
    disturbed: bool,
    /// Until then nothing happens but the steps of one processor, if they do not disturb.
    horizon: u64,
}

impl Stretch {
    /// A stretch that ends at this time.
    pub(super) fn until(horizon: u64) -> Stretch {
        Stretch {
            disturbed: false,
            horizon,
        }
    }

    /// A step changed the order of what happens next: the stretch is over.
    #[inline]
    pub(super) fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Whether it is over for a processor whose clock is this.
    #[inline]
    pub(super) fn is_over(&self, clock: u64) -> bool {
        self.disturbed || clock >= self.horizon
    }

    /// The time that is left.
    pub(super) fn left(&self, clock: u64) -> u64 {
        self.horizon.saturating_sub(clock)
    }
}
