//! Caches that tell what memory is worth to them share slack with heaps by that, and keep what they are
//! guaranteed.

use super::*;

/// A cache whose misses cost `cost` x 1 MiB / its room seconds per second.
struct Cache {
    id: Id,
    cost: f64,
}

/// Bytes below which no cache goes.
const FLOOR: u64 = 10 * MIB;

impl Cache {
    fn worth(&self, size: u64) -> u64 {
        let room = (size - FLOOR) as f64 / MIB as f64;
        (self.cost / room / room * 1e9) as u64
    }
}

impl Bench {
    /// Each cache fills its limit, and says each second what one more MiB is worth to it.
    fn caches(&mut self, seconds: usize, caches: &[Cache]) {
        for tenth in 0..10 * seconds {
            for cache in caches {
                let size = self.numbers(cache.id).limit.max(FLOOR + MIB);
                self.uses(cache.id, size);
                if tenth % 10 == 0 {
                    self.says(cache.id, cache.worth(size));
                }
            }
            self.tick(Nanos::millis(100));
        }
    }

    fn says(&mut self, id: Id, worth: u64) {
        let report = Report {
            id,
            floor: Some(FLOOR),
            worth: Some(worth),
            ..Report::default()
        };
        self.core.report(&report).expect("is registered");
    }

    fn target_of(&self, id: Id) -> u64 {
        self.core.figures(id).expect("is registered").wants.target
    }
}

fn two(bench: &mut Bench, costs: [f64; 2]) -> [Cache; 2] {
    costs.map(|cost| Cache {
        id: bench.add(&new("cache"), 20 * MIB),
        cost,
    })
}

#[test]
fn slack_goes_where_it_is_worth_most() {
    let mut bench = Bench::new(1200 * MIB);
    // It wants little, so two thirds of its share are slack.
    let idle = bench.add(&new("idle"), 20 * MIB);
    let report = Report {
        id: idle,
        demand: Some(100 * MIB),
        ..Report::default()
    };
    bench.core.report(&report).expect("is registered");
    // With 1 MiB beyond its floor the one loses 400 s in a second, the other 0.5 s.
    let caches = two(&mut bench, [400.0, 0.5]);
    bench.caches(60, &caches);
    let [much, little] = [0, 1].map(|at| {
        let share = bench.numbers(caches[at].id).share;
        let target = bench.target_of(caches[at].id);
        assert!(target >= share, "it keeps its share: {target} of {share}");
        target - share
    });
    assert!(much > 100 * MIB && much > 4 * little, "{much} and {little}");
}

/// A little more memory is worth nothing to it, and it would lose all of its hits with less.
#[test]
fn a_cache_to_which_more_is_worth_nothing_keeps_its_share() {
    let mut bench = Bench::new(1000 * MIB);
    let caches = two(&mut bench, [0.0, 400.0]);
    bench.caches(60, &caches);
    let share = bench.numbers(caches[0].id).share;
    let target = bench.target_of(caches[0].id);
    assert!(target >= share && share > 400 * MIB, "{target} of {share}");
}

#[test]
fn equal_caches_have_equal_shares() {
    let mut bench = Bench::new(1000 * MIB);
    let caches = two(&mut bench, [50.0, 50.0]);
    bench.caches(30, &caches);
    let [one, other] = [0, 1].map(|at| bench.target_of(caches[at].id));
    assert!(one.abs_diff(other) < one / 8, "{one} and {other}");
}

#[test]
fn an_absurd_worth_takes_no_guarantee() {
    for absurd in [0, 1, 1 << 42, u64::MAX] {
        let mut bench = Bench::new(1000 * MIB);
        let honest = bench.add(&new("honest"), 400 * MIB);
        let liar = bench.add(&new("liar"), 400 * MIB);
        for _ in 0..20 {
            bench.says(liar, absurd);
            bench.ticks(10, Nanos::millis(100));
        }
        let share = bench.numbers(honest).share;
        assert!(bench.target_of(honest) >= share, "{absurd}: {share}");
        assert!(share > 400 * MIB, "{absurd}: {share}");
    }
}

#[test]
fn a_collector_counts_before_a_cache_in_its_heap() {
    let mut bench = Bench::new(1000 * MIB);
    let [one, other] = ["one", "other"].map(|name| bench.add(&new(name), 300 * MIB));
    for _ in 0..20 {
        bench.reports_idle(one, 50 * MIB);
        bench.says(one, 1 << 40);
        bench.ticks(10, Nanos::millis(100));
    }
    let share = bench.numbers(other).share;
    assert!(bench.target_of(one) < share, "its collector needs nothing");
}
