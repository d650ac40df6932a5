//! A program that does not answer. After some moves ([`Lever::act`](crate::lever::Lever::act)) without an
//! answer it is left alone for a while. If it stood still meanwhile (its cgroup was frozen, or it was
//! stopped) it is asked again as soon as it runs, because it never refused anything.

use plimsoll_unit::Nanos;
use std::time::{Duration, Instant};

/// After this many moves in a row without an answer the program is left alone.
const FAILURES: u32 = 3;
/// How long a program that does not answer is left alone.
pub(crate) const LEFT_ALONE: Duration = Duration::from_secs(30);
/// A program that used less processor time than this between the failures stood still.
const STILL: Nanos = Nanos::millis(5);

/// The failures of one program.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Moves without an answer since the last answer. A move may be several commands.
    failures: u32,
    /// The program's processor time after the first failure.
    first: Option<Nanos>,
    /// Its processor time when it was left alone; only if it stood still in between.
    stood: Option<Nanos>,
    /// Until when it is left alone.
    until: Option<Instant>,
}

impl Silence {
    /// Notes an answer.
    pub(super) fn broken(&mut self) {
        *self = Silence::default();
    }

    /// Notes a move without an answer. `worked`: the program's processor time. Returns whether to tell the
    /// user now, which is once per silence.
    pub(super) fn goes_on(&mut self, worked: Option<Nanos>, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        let first = *self.first.get_or_insert(worked.unwrap_or(Nanos(u64::MAX)));
        if self.failures >= FAILURES {
            self.until = Some(now + LEFT_ALONE);
            self.stood = worked.filter(|&worked| worked - first < STILL);
        }
        self.failures == FAILURES
    }

    /// Whether it was decided that the program is left alone, for however long.
    pub(super) fn lasts(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the program is to be left alone now.
    pub(super) fn keeps_away(&self, worked: Option<Nanos>, now: Instant) -> bool {
        let runs = self.stood.zip(worked);
        let runs = runs.is_some_and(|(stood, worked)| worked >= stood + STILL);
        !runs && self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::seconds(1);

    /// Three moves without an answer, at these processor times; the third is told.
    fn silent(worked: [Nanos; 3], now: Instant) -> Silence {
        let mut silence = Silence::default();
        let told = worked.map(|worked| silence.goes_on(Some(worked), now));
        assert_eq!(told, [false, false, true]);
        assert!(silence.keeps_away(Some(worked[2]), now));
        silence
    }

    #[test]
    fn one_that_stood_still_is_asked_again_when_it_runs() {
        let now = Instant::now();
        let mut silence = silent([SECOND; 3], now);
        assert!(silence.keeps_away(Some(SECOND + STILL / 2), now));
        assert!(!silence.keeps_away(Some(SECOND + STILL), now));
        // It fails again before it answers.
        assert!(!silence.goes_on(Some(SECOND * 2), now));
        assert!(!silence.goes_on(Some(SECOND * 2), now));
        silence.broken();
        assert!(!silence.keeps_away(Some(SECOND * 2), now));
    }

    #[test]
    fn one_that_runs_and_does_not_answer_is_left_alone_for_long() {
        let now = Instant::now();
        let silence = silent([SECOND, SECOND * 2, SECOND * 3], now);
        assert!(silence.keeps_away(Some(SECOND * 9), now));
        assert!(!silence.keeps_away(Some(SECOND * 9), now + LEFT_ALONE));
    }

    #[test]
    fn one_whose_processor_time_is_hidden_is_left_alone_for_long() {
        let now = Instant::now();
        let mut silence = Silence::default();
        assert!((0..3).any(|_| silence.goes_on(None, now)));
        assert!(silence.keeps_away(None, now));
        assert!(silence.keeps_away(Some(SECOND), now));
    }
}
