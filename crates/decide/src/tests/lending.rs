//! Lending by the figures of collectors, and shares without it.

use super::*;
use plimsoll_wire::messages::Report;
use proptest::prelude::*;

impl Bench {
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
        self.core.figures(id).expect("is registered").target
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
        bench.tick(50 * MILLISECOND);
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
        match at(level).iter().sum::<f64>() > budget as f64 {
            true => high = level,
            false => low = level,
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
    bench.ticks(5, 50 * MILLISECOND);
    let lent = bench.target(busy);
    let mut switch = |lending| {
        bench.core.configure(Config {
            lending,
            ..Config::default()
        });
        bench.ticks(5, 50 * MILLISECOND);
        (bench.target(idle), bench.target(busy))
    };
    let (idle, equal) = switch(false);
    assert_eq!(idle, equal, "equal weights");
    assert!(lent > equal + equal / 2, "{lent} and {equal}");
    assert_eq!(switch(true).1, lent);
}
