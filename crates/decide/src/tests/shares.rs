//! Shares of principals.

use super::*;
use plimsoll_wire::messages::{Report, Statistics};

#[test]
fn shares_follow_weights() {
    let mut bench = Bench::new(1500 * MIB);
    let weights = [10, 40, 20].map(weight);
    let ids = weights.map(|weight| bench.add(&NewPrincipal { weight, ..new("p") }, 0));
    bench.ticks(3, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("the root").budget;
    for (id, weight) in ids.into_iter().zip(weights) {
        let ideal = budget * u64::from(weight.get()) / 70;
        assert!(
            bench.numbers(id).limit.abs_diff(ideal) < ideal / 50,
            "{:?}, ideal {ideal}",
            bench.numbers(id)
        );
    }
}

#[test]
fn a_newcomer_waits_for_memory_that_is_really_free() {
    let mut bench = Bench::new(1000 * MIB);
    let old = bench.add(&new("old"), 0);
    bench.tick(Nanos::millis(50));
    bench.uses(old, 960 * MIB);
    bench.ticks(3, Nanos::millis(50));
    let late = bench.add(&new("new"), 0);
    bench.tick(Nanos::millis(50));
    assert!(
        bench.numbers(old).owed > 400 * MIB,
        "{:?}",
        bench.numbers(old)
    );
    assert!(
        bench.numbers(late).limit < 30 * MIB,
        "{:?}",
        bench.numbers(late)
    );
    bench.uses(old, bench.numbers(old).limit);
    bench.tick(Nanos::millis(50));
    assert_eq!(bench.numbers(old).owed, 0);
    assert!(
        bench.numbers(late).limit > 450 * MIB,
        "{:?}",
        bench.numbers(late)
    );
}

#[test]
fn a_program_that_wakes_gets_its_share_before_its_adapter_tells() {
    let mut bench = Bench::new(1000 * MIB);
    let sleeper = bench.add(&new("sleeper"), 50 * MIB);
    bench.reports_idle(sleeper, 5 * MIB);
    let other = bench.add(&new("other"), 100 * MIB);
    for uses in [300, 500, 700, 880, 880, 880] {
        bench.tick(Nanos::millis(100));
        bench.uses(other, uses * MIB);
    }
    assert!(
        bench.numbers(other).limit > 850 * MIB,
        "it has what the sleeper does not want"
    );
    for uses in [80, 110] {
        bench.uses(sleeper, uses * MIB);
        bench.tick(Nanos::millis(100));
    }
    assert!(
        bench.numbers(other).owed > 50 * MIB,
        "{:?}",
        bench.numbers(other)
    );
}

#[test]
fn a_limit_does_not_rise_while_its_program_stalls_within_it() {
    let mut bench = Bench::new(1000 * MIB);
    let stalling = bench.add(&new("stalling"), 0);
    let other = bench.add(&new("other"), 0);
    bench.ticks(3, Nanos::millis(50));
    let stalls = |bench: &mut Bench, number| {
        let stalls = Some(number);
        let report = Report {
            id: stalling,
            stalls,
            ..Report::default()
        };
        bench.core.report(&report).expect("is registered");
    };
    bench.uses(stalling, 400 * MIB);
    bench.uses(other, 400 * MIB);
    stalls(&mut bench, 10);
    bench.tick(Nanos::millis(50));
    let before = bench.numbers(stalling).limit;
    // The other one ends.
    stalls(&mut bench, 25);
    bench.tick(Nanos::millis(50));
    bench.core.remove(other).expect("is there");
    bench.uses.retain(|one| one.0 == stalling);
    for round in 0..40 {
        stalls(&mut bench, 40 + round);
        bench.tick(Nanos::millis(100));
        let numbers = bench.numbers(stalling);
        assert!(numbers.limit <= before, "{numbers:?}");
        assert_eq!(numbers.owed, 0, "nothing is taken from it");
        let figures = bench.core.figures(stalling).expect("is there");
        assert!(
            figures.stalls.doubted && figures.stalls.rate > Some(0),
            "{figures:?}"
        );
    }
    bench.ticks(40, Nanos::millis(100));
    let numbers = bench.numbers(stalling);
    assert!(numbers.limit > 800 * MIB, "the doubt is over: {numbers:?}");
}

#[test]
fn what_a_stalling_program_does_not_get_goes_to_others() {
    let mut bench = Bench::new(1000 * MIB);
    let stalling = bench.add(&new("stalling"), 100 * MIB);
    bench.reports_idle(stalling, 20 * MIB);
    let begin = Report {
        id: stalling,
        stalls: Some(0),
        ..Report::default()
    };
    bench.core.report(&begin).expect("is registered");
    let busy = bench.add(&new("busy"), 100 * MIB);
    bench.ticks(10, Nanos::millis(50));
    let before = bench.numbers(stalling).limit;
    // It wants its half now, but stalls.
    for round in 0..20 {
        let report = Report {
            id: stalling,
            live: Some(300 * MIB),
            allocation_rate: Some(1 << 30),
            collection_speed: Some(1 << 30),
            stalls: Some(round + 1),
            ..Report::default()
        };
        bench.core.report(&report).expect("is registered");
        bench.tick(Nanos::millis(100));
    }
    let (stalls, busy) = (bench.numbers(stalling), bench.numbers(busy));
    assert!(
        stalls.limit <= before.max(stalls.uses + 64 * MIB),
        "{stalls:?}, {before}"
    );
    assert!(busy.limit > 600 * MIB, "{busy:?}");
}

#[test]
fn an_idle_program_keeps_what_it_has_until_somebody_wants_it() {
    let mut bench = Bench::new(1000 * MIB);
    let idle = bench.add(&new("idle"), 600 * MIB);
    bench.reports_idle(idle, 50 * MIB);
    bench.ticks(20, Nanos::millis(50));
    assert_eq!(bench.numbers(idle).owed, 0);
    let busy = bench.add(&new("busy"), 0);
    bench.ticks(5, Nanos::millis(50));
    assert_eq!(bench.numbers(idle).owed, 0, "nobody lacks anything yet");
    let limit = bench.numbers(busy).limit;
    assert!(limit > 300 * MIB, "{limit}");
    bench.uses(busy, limit);
    bench.ticks(5, Nanos::millis(50));
    assert!(
        bench.numbers(idle).owed > 400 * MIB,
        "{:?}",
        bench.core.figures(idle)
    );
    assert!(
        bench
            .core
            .figures(busy)
            .is_some_and(|one| one.wants.target > 800 * MIB)
    );
}

#[test]
fn a_group_with_a_cgroup_is_bounded_by_what_is_left_in_it() {
    let mut core = Core::new(Config::default());
    let top = core.register(&group(None), Nanos::ZERO).expect("registers");
    let leaf = core
        .register(
            &NewPrincipal {
                parent: Some(top),
                ..new("p")
            },
            Nanos::ZERO,
        )
        .expect("registers");
    let inside = SensedDomain {
        capacity: Bytes::mib(1000),
        used: Bytes::mib(600),
        ..SensedDomain::default()
    };
    let whole = SensedDomain {
        capacity: Bytes::mib(16_000),
        used: Bytes::mib(700),
        ..SensedDomain::default()
    };
    let seen = [
        SensedPrincipal {
            id: top,
            domain: Some(inside),
            ..SensedPrincipal::default()
        },
        sensed(leaf, 100 * MIB),
    ];
    for at in 1..100 {
        core.tick(Nanos::millis(50) * at, &whole, &seen);
    }
    let domain = core.domain(Some(top)).expect("has a cgroup");
    assert_eq!(domain.outsiders, 500 * MIB);
    let limit = core.numbers(leaf).expect("is registered").limit;
    assert!(
        limit <= domain.budget && limit > 450 * MIB,
        "{limit} of {domain:?}"
    );
    assert!(core.glance(Some(top), Bytes::mib(900)) && !core.glance(Some(top), Bytes::mib(600)));
}

#[test]
fn a_liar_gets_no_more_than_its_weight_gives() {
    let mut bench = Bench::new(1000 * MIB);
    let honest = bench.add(&new("honest"), 0);
    let liar = bench.add(&new("liar"), 0);
    bench
        .core
        .report(&Report {
            id: honest,
            demand: Some(600 * MIB),
            ..Report::default()
        })
        .expect("is registered");
    let lies = Report {
        id: liar,
        live: Some(u64::MAX),
        allocation_rate: Some(u64::MAX),
        collection_speed: Some(1),
        demand: Some(u64::MAX),
        floor: Some(u64::MAX),
        reaction_ms: Some(u64::MAX),
        collector: Some(Statistics {
            heap: Some(u64::MAX),
            retained: Some(u64::MAX),
            ..Statistics::default()
        }),
        ..Report::default()
    };
    bench.core.report(&lies).expect("is registered");
    bench.ticks(5, Nanos::millis(50));
    let (honest, liar) = (bench.numbers(honest).limit, bench.numbers(liar).limit);
    assert!(honest + honest / 50 >= liar, "{honest} against {liar}");
}

/// Where an excess kills, several programs may grow at once; a program that is alone keeps
/// everything.
#[test]
fn on_a_cliff_several_hold_more_back_than_one() {
    let withheld = |cliff: bool, programs: usize| {
        let mut bench = Bench::new(1000 * MIB);
        bench.cliff = cliff;
        for _ in 0..programs {
            bench.add(&new("p"), 100 * MIB);
        }
        bench.ticks(20, Nanos::millis(50));
        let domain = bench.core.domain(None).expect("the root");
        domain.capacity - domain.budget
    };
    let usual = withheld(false, 1);
    // Budgets move by steps.
    for (cliff, programs) in [(true, 1), (false, 2)] {
        let held = withheld(cliff, programs);
        assert!(held.abs_diff(usual) < 4 * MIB, "{held} instead of {usual}");
    }
    let several = withheld(true, 2);
    assert!((160 * MIB..180 * MIB).contains(&several), "{several}");
}
