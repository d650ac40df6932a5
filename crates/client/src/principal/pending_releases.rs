//! Memory that the program gave back and that the numbers do not show yet. The broker reads a program's
//! memory some milliseconds after it was freed, and numbers that were on their way meanwhile are older
//! still. Without this, a debt that was paid would be told again, and paid twice.

use crate::Source;
use crate::reading::Reading;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::page::Level;

/// Releases that are remembered one by one; further ones join the last.
const MOST: usize = 16;

/// The releases, oldest first. Belongs to the lock of the principal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paid {
    /// When memory was given back (`CLOCK_MONOTONIC`), and how much.
    releases: [(Nanos, Bytes); MOST],
    count: usize,
}

impl Paid {
    /// Notes that `bytes` were given back before `now`. Forgets the releases that `shown` includes.
    pub(super) fn add(&mut self, bytes: Bytes, now: Nanos, shown: &Reading) {
        let shown = as_of(shown);
        let included = self.known().partition_point(|&(at, _)| at <= shown);
        self.releases.copy_within(included..self.count, 0);
        self.count -= included;
        match self.count {
            MOST => {
                let (at, sum) = &mut self.releases[MOST - 1];
                (*at, *sum) = (now, *sum + bytes);
            }
            count => {
                self.releases[count] = (now, bytes);
                self.count += 1;
            }
        }
    }

    /// The reading as it will be once the broker has seen what was given back.
    pub(super) fn settle(&self, reading: Reading) -> Reading {
        let shown = as_of(&reading);
        let unseen = self.known().iter().filter(|&&(at, _)| at > shown);
        let paid: Bytes = unseen.map(|&(_, bytes)| bytes).sum();
        let mut settled = reading;
        let numbers = &mut settled.numbers;
        numbers.uses = numbers.uses.saturating_sub(paid.0);
        if numbers.owed > 0 && paid > Bytes::ZERO {
            numbers.owed = numbers.owed.saturating_sub(paid.0);
            if numbers.owed == 0 {
                (numbers.deadline, numbers.level) = (0, Level::Normal);
            }
        }
        settled
    }

    fn known(&self) -> &[(Nanos, Bytes)] {
        &self.releases[..self.count]
    }
}

/// The time up to which a reading shows what was given back. An older broker does not say when it
/// read; then the time of its last sign of life stands for that.
pub(super) fn as_of(reading: &Reading) -> Nanos {
    match (reading.numbers.sensed, reading.source) {
        (0, Source::Broker | Source::Stale) => reading.heartbeat,
        (sensed, _) => Nanos(sensed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::page::Numbers;

    fn reading(sensed: u64, owed: u64) -> Reading {
        Reading {
            numbers: Numbers {
                uses: 1000 + owed,
                limit: 1000,
                owed,
                deadline: 9,
                level: Level::Critical,
                sensed,
                ..Numbers::default()
            },
            source: Source::Broker,
            ..Reading::NOTHING
        }
    }

    #[test]
    fn a_debt_that_was_paid_is_not_owed_until_the_numbers_are_newer() {
        let mut paid = Paid::default();
        let told = reading(10, 668);
        paid.add(Bytes(600), Nanos(20), &told);
        assert_eq!(paid.settle(told).owed, 68);
        paid.add(Bytes(68), Nanos(30), &told);
        // It also holds for numbers that were on their way meanwhile.
        let on_its_way = paid.settle(reading(19, 675));
        assert_eq!((on_its_way.owed, on_its_way.uses), (7, 1007));
        let settled = paid.settle(told);
        let expected = (0, 0, 1000, Level::Normal);
        let numbers = settled.numbers;
        assert_eq!(
            (numbers.owed, numbers.deadline, numbers.uses, numbers.level),
            expected
        );
        assert_eq!(
            paid.settle(reading(20, 70)).owed,
            2,
            "the first payment shows"
        );
        let after = reading(30, 5);
        assert_eq!(
            paid.settle(after),
            after,
            "both show: what is owed now is new"
        );
    }

    #[test]
    fn many_small_releases_are_all_counted_and_forgotten_once_they_show() {
        let mut paid = Paid::default();
        for at in 101..=1100 {
            paid.add(Bytes(1), Nanos(at), &reading(100, 0));
        }
        assert_eq!(paid.settle(reading(100, 5000)).owed, 4000);
        paid.add(Bytes(7), Nanos(1101), &reading(1100, 0));
        assert_eq!((paid.count, paid.settle(reading(1100, 10)).owed), (1, 3));
    }
}
