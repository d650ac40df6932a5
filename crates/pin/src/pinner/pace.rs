//! When rounds are due, so that watching takes no more than its share of a processor.

use crate::options::Options;
use plimsoll_unit::Nanos;
use std::mem::take;

/// Shortest and longest time from one round to the next.
const SHORTEST: Nanos = Nanos::millis(100);
const LONGEST: Nanos = Nanos::seconds(2);
/// From this many major faults a second on, rounds follow each other as fast as they may.
const ALARM: f64 = 20.0;

/// Processor time that was taken, and when the next round is due.
#[derive(Debug)]
pub(super) struct Pace {
    window: Nanos,
    /// The part of a processor that rounds may take.
    share: f64,
    started: Nanos,
    next: Nanos,
    /// When the present round began.
    round: Nanos,
    /// Processor time of the looks in this round.
    looks: Nanos,
    /// Processor time of the calling thread since the last round: on that round and on choices.
    here: Nanos,
    /// The same, on reading the margins.
    margins: Nanos,
    /// All processor time so far.
    spent: Nanos,
}

impl Pace {
    pub(super) fn new(options: Options, now: Nanos) -> Pace {
        Pace {
            window: options.window,
            share: options.processor.clamp(0.001, 1.0),
            started: now,
            next: now,
            round: now,
            looks: Nanos::ZERO,
            here: Nanos::ZERO,
            margins: Nanos::ZERO,
            spent: Nanos::ZERO,
        }
    }

    /// When the next round is due, monotonic.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }

    pub(super) fn begin_round(&mut self, now: Nanos) {
        (self.round, self.looks) = (now, Nanos::ZERO);
    }

    /// Counts the processor time of a look.
    pub(super) fn count_look(&mut self, cost: Nanos) {
        self.looks += cost;
    }

    /// All looks of a round are done.
    pub(super) fn end_looks(&mut self) {
        self.spent += self.looks;
    }

    /// Counts the processor time of a tick: on the margins, and on the round and choices.
    pub(super) fn count_tick(&mut self, margins: Nanos, here: Nanos) {
        self.margins += margins;
        self.here += here;
    }

    /// Counts the processor time of a whole tick.
    pub(super) fn count_spent(&mut self, tick: Nanos) {
        self.spent += tick;
    }

    /// Sets when the next round is due: at once when programs wait for their pages, but never so often
    /// that rounds take more than their share.
    ///
    /// The time on the margins grows with the time between rounds, so it counts as much as all else at
    /// most: otherwise many groups would leave no rounds.
    pub(super) fn set_next(&mut self, majors_per_second: f64) {
        let wanted = if majors_per_second >= ALARM {
            SHORTEST
        } else {
            (self.window / 30).clamp(SHORTEST, LONGEST)
        };
        let rounds = self.looks + take(&mut self.here);
        let cost = rounds + take(&mut self.margins).min(rounds);
        let affordable = Nanos((cost.0 as f64 / self.share) as u64);
        self.next = self.round + wanted.max(affordable);
    }

    /// The part of one processor that was taken since the start.
    pub(super) fn processor(&self, now: Nanos) -> f64 {
        let elapsed = (now - self.started).0.max(1);
        self.spent.0 as f64 / elapsed as f64
    }

    #[cfg(test)]
    pub(super) fn set_due(&mut self) {
        self.next = Nanos::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_take_no_more_than_their_share_with_all_that_belongs_to_them() {
        let mut pace = Pace::new(Options::default(), Nanos::ZERO);
        let mut interval = |looks, here, margins, majors| {
            pace.begin_round(Nanos::ZERO);
            pace.count_look(looks);
            pace.count_tick(margins, here);
            pace.set_next(majors);
            pace.next()
        };
        let (none, ms, most) = (Nanos::ZERO, Nanos::millis, Nanos(u64::MAX));
        assert_eq!(interval(none, none, none, 0.0), ms(1000));
        assert_eq!(interval(ms(1), none, none, 100.0), ms(100));
        // 2 % of a processor: 50 times what a round takes.
        assert_eq!(interval(ms(10), none, none, 100.0), ms(500));
        assert_eq!(interval(ms(10), ms(30), none, 100.0), ms(2000));
        assert_eq!(interval(ms(10), ms(30), ms(20), 0.0), ms(3000));
        // The margins of very many groups do not end the rounds.
        assert_eq!(interval(ms(10), ms(30), ms(900), 0.0), ms(4000));
        assert_eq!(interval(most, most, most, 0.0), most);
    }
}
