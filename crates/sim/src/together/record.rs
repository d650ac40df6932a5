//! The record of a program's memory over time: averages, a bounded number of points, and its debts.

use super::outcome::{Point, Revocations, Share};
use plimsoll_unit::Nanos;
use plimsoll_wire::page::Numbers;

/// The most points of a program. When there would be more, every other one is dropped.
const MOST_POINTS: usize = 1024;
/// Time between the first points.
const FIRST: Nanos = Nanos::millis(1);

/// Times at which points are taken: the distances double when there would be too many. The same for all
/// programs, so that their points lie one below the other.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    every: Nanos,
    due: Nanos,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            every: FIRST,
            due: Nanos::ZERO,
        }
    }

    /// When the next point is due.
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// A point was taken. Returns whether every other point of `count` has to go.
    pub(super) fn taken(&mut self, now: Nanos, count: usize) -> bool {
        let is_full = count >= MOST_POINTS;
        if is_full {
            self.every = self.every * 2;
        }
        self.due = self.every * (now.0 / self.every.0 + 1);
        is_full
    }
}

/// Drops every other point, the first one not.
pub(super) fn thin<T: Copy>(points: &mut Vec<T>) {
    *points = points.iter().step_by(2).copied().collect();
}

/// A batch that is owed. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Batch {
    began: u64,
    deadline: u64,
    /// The size that the program has to come down to, bytes.
    due: u64,
    /// When it was seen there first.
    paid: Option<u64>,
}

/// The record of one program. Times are nanoseconds since the beginning of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub points: Vec<Point>,
    pub revocations: Revocations,
    /// The page as it was read last.
    pub page: Numbers,
    batch: Option<Batch>,
    /// When the sums were brought up to date, and the values since then.
    since: u64,
    last: Point,
    /// Value times time: what it had, its heap, its limit, the ideal, the distance, and the time alone.
    sums: [u128; 6],
}

impl Record {
    /// The program begins.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.since = now.0;
    }

    /// The memory of the program from this time on.
    pub(super) fn note(&mut self, point: Point) {
        let passed = u128::from(point.at - self.since);
        let Point {
            uses,
            heap,
            limit,
            ideal,
            ..
        } = self.last;
        let values = [uses, heap, limit, ideal, uses.abs_diff(ideal), 1];
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum += u128::from(value) * passed;
        }
        (self.since, self.last) = (point.at, point);
        if let Some(batch) = self.batch.as_mut().filter(|batch| point.uses <= batch.due) {
            batch.paid.get_or_insert(point.at);
        }
    }

    /// The broker's page says this now.
    pub(super) fn read(&mut self, now: Nanos, numbers: Numbers) {
        let now = now.0;
        let ends = self
            .batch
            .filter(|batch| numbers.owed == 0 || numbers.deadline != batch.deadline);
        if let Some(batch) = ends {
            self.end_batch(batch, now);
        }
        if numbers.owed > 0 && self.batch.is_none() {
            self.batch = Some(Batch {
                began: now,
                deadline: numbers.deadline,
                due: numbers.limit,
                paid: None,
            });
            self.revocations.batches += 1;
            self.revocations.owed = self.revocations.owed.saturating_add(numbers.owed);
        }
        self.page = numbers;
    }

    /// The program ends: so all that it owed is free.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some(batch) = self.batch {
            self.end_batch(batch, now.0);
        }
        self.page = Numbers::default();
    }

    fn end_batch(&mut self, batch: Batch, now: u64) {
        let revocations = &mut self.revocations;
        let paid = batch.paid.unwrap_or(now);
        revocations.met += u64::from(paid <= batch.deadline);
        revocations.longest = revocations.longest.max(paid - batch.began);
        self.batch = None;
    }

    /// The averages.
    pub(super) fn share(&self) -> Share {
        let [uses, heap, limit, ideal, apart, time] = self.sums;
        let mean = |sum: u128| (sum / time.max(1)) as u64;
        Share {
            uses: mean(uses),
            heap: mean(heap),
            limit: mean(limit),
            ideal: mean(ideal),
            apart: mean(apart),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_bounded_and_averages_are_weighed_by_time() {
        let (mut pace, mut record) = (Pace::new(), Record::default());
        record.begin(Nanos::ZERO);
        for _ in 0..5000 {
            let at = pace.due();
            let point = Point {
                at: at.0,
                uses: 10,
                ideal: 30,
                ..Point::default()
            };
            record.note(point);
            record.points.push(point);
            if pace.taken(at, record.points.len()) {
                thin(&mut record.points);
            }
        }
        assert!(record.points.len() <= MOST_POINTS);
        let apart = |pair: &[Point]| pair[1].at - pair[0].at;
        let distances: Vec<u64> = record.points.windows(2).map(apart).collect();
        assert!(
            distances.iter().all(|it| *it == pace.every.0),
            "{distances:?}"
        );
        let share = record.share();
        assert_eq!((share.uses, share.ideal, share.apart), (10, 30, 20));
    }

    #[test]
    fn batches_are_met_by_their_deadlines_or_not() {
        let mut record = Record::default();
        let mut page = |now, owed, deadline| {
            record.read(
                Nanos(now),
                Numbers {
                    owed,
                    deadline,
                    ..Numbers::default()
                },
            );
        };
        page(1, 100, 10);
        page(5, 50, 10);
        page(9, 0, 0);
        page(20, 7, 30);
        // The next batch begins where the last one is over, too late.
        page(35, 9, 60);
        page(50, 0, 0);
        let it = record.revocations;
        assert_eq!((it.batches, it.met, it.owed, it.longest), (3, 2, 116, 15));
    }
}
