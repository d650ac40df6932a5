//! Lending by the figures of collectors, and shares without it.

use super::*;
use plimsoll_wire::messages::Report;
use proptest::prelude::*;

impl Bench {
    /// Ticks ten times a second. Each program reports each second: its rate with all the processor time
    /// that it wants, and the thousandths of that time that it obtains.
    fn busy(&mut self, seconds: usize, programs: &[(Id, u64, u32)]) {
        for tenth in 0..10 * seconds {
            for &(id, rate, obtained) in programs.iter().filter(|_| tenth % 10 == 0) {
                let report = Report {
                    id,
                    live: Some(100 * MIB),
                    allocation_rate: Some(rate * u64::from(obtained) / 1000),
                    collection_speed: Some(1000 * MIB),
                    ..Report::default()
                };
                self.core.report(&report).expect("is registered");
                self.wanted.retain(|one| one.0 != id);
                self.wanted.push((id, 1_000_000 / obtained));
            }
            self.tick(Nanos::millis(100));
        }
    }

    /// A core that is set up without lending.
    fn without_lending(capacity: u64) -> Bench {
        let mut bench = Bench::new(capacity);
        bench.core.configure(Config {
            lending: false,
            ..Config::default()
        });
        bench
    }

    fn target(&self, id: Id) -> u64 {
        self.core.figures(id).expect("is registered").wants.target
    }
}

/// A program: its weight, its use and what its adapter reports, in MiB.
#[derive(Clone, Debug)]
struct One {
    weight: u32,
    uses: u64,
    demand: Option<u64>,
    live: u64,
    rate: u64,
    speed: u64,
}

impl One {
    fn report(&self, id: Id, has_collector: bool) -> Report {
        let figure = |mib: u64| Some(mib * MIB).filter(|_| has_collector);
        Report {
            id,
            demand: self.demand.map(|mib| mib * MIB),
            live: figure(self.live),
            allocation_rate: figure(self.rate),
            collection_speed: figure(self.speed),
            ..Report::default()
        }
    }
}

prop_compose! {
    fn one()(
        weight in 1..100u32,
        uses in 0..300u64,
        demand in prop::option::of(1..2000u64),
        live in 1..200u64,
        rate in 0..4000u64,
        speed in 1..4000u64,
    ) -> One {
        One { weight, uses, demand, live, rate, speed }
    }
}

/// Targets in the order of the programs, and the budget.
fn targets(mut bench: Bench, programs: &[One], have_collectors: bool) -> (Vec<u64>, u64) {
    let ids: Vec<Id> = programs
        .iter()
        .map(|one| {
            let weight = weight(one.weight);
            bench.add(&NewPrincipal { weight, ..new("p") }, one.uses * MIB)
        })
        .collect();
    for _ in 0..3 {
        for (one, &id) in programs.iter().zip(&ids) {
            bench
                .core
                .report(&one.report(id, have_collectors))
                .expect("is registered");
        }
        bench.tick(Nanos::millis(50));
    }
    let budget = bench.core.domain(None).expect("the root").budget;
    (ids.iter().map(|&id| bench.target(id)).collect(), budget)
}

/// Weighted max-min, by halving the interval of its level: bytes.
fn max_min(programs: &[One], budget: u64) -> Vec<f64> {
    let demand = |one: &One| one.demand.map_or(f64::INFINITY, |mib| (mib * MIB) as f64);
    let at = |level: f64| {
        let each = programs.iter();
        each.map(|one| demand(one).min(level * f64::from(one.weight)))
            .collect::<Vec<f64>>()
    };
    let (mut low, mut high) = (0.0, budget as f64);
    for _ in 0..100 {
        let level = (low + high) / 2.0;
        if at(level).iter().sum::<f64>() > budget as f64 {
            high = level;
        } else {
            low = level;
        }
    }
    at(low)
}

proptest! {
    #[test]
    fn without_lending_targets_are_weighted_max_min(programs in prop::collection::vec(one(), 1..8)) {
        let (got, budget) = targets(Bench::without_lending(3000 * MIB), &programs, true);
        let uses: u64 = programs.iter().map(|one| one.uses).sum();
        let wanted: u64 = programs
            .iter()
            .map(|one| one.demand.map_or(u64::MAX, |mib| mib.max(one.uses)))
            .fold(0, u64::saturating_add);
        // Where all demands fit, programs keep what they use, even more than they say that they want.
        prop_assume!(uses * MIB < budget && wanted > budget / MIB);
        for (got, ideal) in got.iter().zip(max_min(&programs, budget)) {
            prop_assert!((*got as f64 - ideal).abs() < 64.0, "{} instead of {}", got, ideal);
        }
    }

    #[test]
    fn without_lending_no_figure_of_a_collector_moves_memory(programs in prop::collection::vec(one(), 1..8)) {
        let with = targets(Bench::without_lending(3000 * MIB), &programs, true);
        let without = targets(Bench::without_lending(3000 * MIB), &programs, false);
        prop_assert_eq!(with, without);
    }
}

#[test]
fn lending_can_be_switched_at_any_time() {
    let mut bench = Bench::new(1000 * MIB);
    let idle = bench.add(&new("idle"), 300 * MIB);
    let busy = bench.add(&new("busy"), 300 * MIB);
    bench.reports_idle(idle, 50 * MIB);
    bench.ticks(5, Nanos::millis(50));
    let lent = bench.target(busy);
    let mut switch = |lending| {
        bench.core.configure(Config {
            lending,
            ..Config::default()
        });
        bench.ticks(5, Nanos::millis(50));
        (bench.target(idle), bench.target(busy))
    };
    let (idle, equal) = switch(false);
    assert_eq!(idle, equal, "equal weights");
    assert!(lent > equal + equal / 2, "{lent} and {equal}");
    assert_eq!(switch(true).1, lent);
}

/// Three equal programs of weights 10, 40 and 20 begin ten seconds apart on two processors. The second
/// obtains a tenth to a half of the processor time that it wants, and that changes every other second.
#[test]
fn a_newcomer_has_its_share_while_others_take_its_processor() {
    let rate = 1000 * MIB;
    let mut bench = Bench::new(1500 * MIB);
    let add = |bench: &mut Bench, number| {
        bench.add(
            &NewPrincipal {
                weight: weight(number),
                ..new("p")
            },
            0,
        )
    };
    let ten = add(&mut bench, 10);
    bench.busy(10, &[(ten, rate, 1000)]);
    let forty = add(&mut bench, 40);
    let mut limits = Vec::new();
    let watch = |bench: &Bench, limits: &mut Vec<(u64, u64)>| {
        let share = bench.numbers(forty).share;
        limits.push((bench.target(forty), share));
    };
    for obtained in [100, 300, 150, 500, 200] {
        bench.busy(2, &[(ten, rate, 900), (forty, rate, obtained)]);
        watch(&bench, &mut limits);
    }
    for (target, share) in &limits {
        assert!(target >= share, "a newcomer lends nothing: {limits:?}");
    }
    let twenty = add(&mut bench, 20);
    limits.clear();
    for obtained in [250, 400, 150, 500, 200, 300, 125, 450] {
        bench.busy(
            2,
            &[
                (ten, rate, 500),
                (forty, rate, obtained),
                (twenty, rate, 600),
            ],
        );
        watch(&bench, &mut limits);
    }
    // They want the same, so the one that obtains little loses nothing by that. The room of the lightest is
    // greater than by weight.
    let (least, most) = limits
        .iter()
        .fold((u64::MAX, 0), |(least, most), &(target, _)| {
            (least.min(target), most.max(target))
        });
    assert!(most - least < most / 20, "{limits:?}");
    assert!(least > limits[0].1 * 3 / 4, "{limits:?}");
}

#[test]
fn who_has_not_reported_twice_does_not_lend() {
    let mut bench = Bench::new(1000 * MIB);
    let [quiet, busy] = ["quiet", "busy"].map(|name| bench.add(&new(name), 100 * MIB));
    let told = |bench: &mut Bench, id, rate| {
        let report = Report {
            id,
            live: Some(100 * MIB),
            allocation_rate: Some(rate),
            collection_speed: Some(1000 * MIB),
            ..Report::default()
        };
        bench.core.report(&report).expect("is registered");
    };
    let slow = 50 * MIB;
    for _ in 0..2 {
        told(&mut bench, busy, 4000 * MIB);
    }
    told(&mut bench, quiet, slow);
    bench.ticks(200, Nanos::millis(100));
    let share = bench.numbers(quiet).share;
    assert!(bench.target(quiet) >= share, "{}", bench.target(quiet));
    told(&mut bench, quiet, slow);
    bench.ticks(2, Nanos::millis(100));
    assert!(
        bench.target(quiet) < share / 4 * 3,
        "{}",
        bench.target(quiet)
    );
}
