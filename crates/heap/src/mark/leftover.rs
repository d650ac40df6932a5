//! Marking in steps: when a step ends, and the work that it leaves for the next one.

use std::time::Instant;

/// When there is a deadline, the clock is read once per this many spans.
const TICKS: u32 = 64;

/// The time at which marking stops, to go on in another step.
#[derive(Default)]
pub(super) struct Deadline {
    /// `None`: marking goes on until all is done.
    until: Option<Instant>,
    /// Spans scanned: the clock is not read for each.
    looked: u32,
}

impl Deadline {
    /// Sets the time; `None` for no deadline.
    pub(super) fn set(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Whether the time has come.
    pub(super) fn has_come(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Counts a scanned span. True if the time has come, which shows once per [`TICKS`] spans.
    #[inline(always)]
    pub(super) fn tick(&mut self) -> bool {
        self.looked = self.looked.wrapping_add(1);
        self.looked.is_multiple_of(TICKS) && self.has_come()
    }
}

/// The work that a step left to a marker.
#[derive(Default)]
pub(super) struct Leftover {
    /// There is work on the marker's stack or in its queues.
    pub(super) spans: bool,
    /// The superpage from which the scan of written superpages goes on; `None` if it is done.
    pub(super) written_from: Option<usize>,
    /// The same for pending superpages.
    pub(super) pending_from: u32,
    /// The round of the mark workers to which the work belongs.
    round: u32,
}

impl Leftover {
    /// Forgets the work.
    pub(super) fn forget(&mut self) {
        *self = Leftover {
            round: self.round,
            ..Leftover::default()
        };
    }

    /// A round of the mark workers goes on or begins. True if the work belongs to an earlier one.
    pub(super) fn enter(&mut self, round: u32) -> bool {
        std::mem::replace(&mut self.round, round) != round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_once_per_some_spans() {
        let mut deadline = Deadline::default();
        assert!((0..2 * TICKS).all(|_| !deadline.tick()), "there is none");
        deadline.set(Some(Instant::now()));
        assert_eq!((0..2 * TICKS).filter(|_| deadline.tick()).count(), 2);
        assert!(deadline.has_come());
    }

    #[test]
    fn work_of_an_earlier_round_shows_once() {
        let mut left = Leftover {
            spans: true,
            written_from: Some(3),
            ..Leftover::default()
        };
        assert!(!left.enter(0) && left.enter(1) && !left.enter(1));
        left.forget();
        assert!(!left.spans && left.written_from.is_none());
        assert!(!left.enter(1), "the round goes on");
    }
}
