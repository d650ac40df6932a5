//! Shares of programs, and their costs: weights, arrivals, ends, priorities, hogs.

use crate::churn::{Churn, setup};
use plimsoll_sim::threads::Program;
use plimsoll_sim::together::{Hog, Outcome, Point, Policy, Setup, simulate};
use plimsoll_unit::{Bytes, MIB, MILLISECOND, Nanos, SECOND};
use plimsoll_wire::messages::Priority;

fn run(setup: &Setup, programs: &[Churn]) -> Outcome {
    let mut programs = programs.to_vec();
    let mut programs: Vec<&mut dyn Program> = programs
        .iter_mut()
        .map(|it| it as &mut dyn Program)
        .collect();
    simulate(setup, &mut programs).expect("it has an outcome")
}

/// The points of a program from one time to another.
fn within(outcome: &Outcome, program: usize, from: u64, until: u64) -> Vec<Point> {
    let all = outcome.programs[program].points.iter().copied();
    all.filter(|point| (from..until).contains(&point.at))
        .collect()
}

fn mean(points: &[Point], of: fn(&Point) -> u64) -> f64 {
    points.iter().map(|point| of(point) as f64).sum::<f64>() / points.len() as f64
}

/// Weights 10, 40 and 20, one after the other, as in Figure 3 of the paper on memory-adaptive applications.
#[test]
fn each_program_has_its_weighted_part_while_others_come_and_go() {
    let mut setup = setup(Policy::Weights, 128 * MIB, &[10, 40, 20]);
    for (entrant, start) in setup.entrants.iter_mut().zip([0, 4, 8]) {
        entrant.start = Nanos::seconds(start);
    }
    let churn = Churn::new(60_000, 50);
    let outcome = run(&setup, &vec![churn; 3]);
    assert!(outcome.programs.iter().all(|it| it.faults() == 0));
    let parts = [
        [1.0, 0.0, 0.0],
        [0.2, 0.8, 0.0],
        [1.0 / 7.0, 4.0 / 7.0, 2.0 / 7.0],
    ];
    for (period, parts) in parts.iter().enumerate() {
        // After two seconds of each period, all have what they should have.
        let from = (period as u64 * 4 + 2) * SECOND;
        let budget: f64 = (0..3)
            .filter(|&it| parts[it] > 0.0)
            .map(|it| {
                mean(&within(&outcome, it, from, from + 2 * SECOND), |it| {
                    it.limit
                })
            })
            .sum();
        assert!(budget > 0.9 * setup.memory.0 as f64, "{budget}");
        for (program, part) in parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            let points = within(&outcome, program, from, from + 2 * SECOND);
            let (limit, ideal) = (mean(&points, |it| it.limit), mean(&points, |it| it.ideal));
            assert!(
                (limit / budget - part).abs() < 0.01,
                "{program}: {limit} of {budget}"
            );
            assert!(
                (limit / ideal - 1.0).abs() < 0.02,
                "{program}: {limit}, not {ideal}"
            );
            let uses = mean(&points, |it| it.uses);
            assert!(
                uses > 0.85 * limit && uses <= limit,
                "{program}: {uses} of {limit}"
            );
        }
    }
    // The one that was there first gives way twice, in time, and nobody is paged out.
    let first = outcome.programs[0].revocations;
    assert!(
        first.batches >= 2 && first.met == first.batches,
        "{first:?}"
    );
    assert_eq!((first.paged_out, first.bounds), (0, 0));
}

#[test]
fn a_program_that_is_stopped_leaves_its_memory_to_the_others() {
    let mut setup = setup(Policy::Weights, 64 * MIB, &[100, 300]);
    setup.entrants[1].stop = Some(Nanos::seconds(3));
    let outcome = run(&setup, &[Churn::new(30_000, 50), Churn::new(60_000, 50)]);
    let [stays, stopped] = &outcome.programs[..] else {
        panic!("two programs");
    };
    assert!(stopped.stopped && stopped.ended == 3 * SECOND && !stays.stopped);
    assert!(stopped.outcome.objects < 60_000 && stays.outcome.objects == 30_000);
    let before = mean(&within(&outcome, 0, 2 * SECOND, 3 * SECOND), |it| it.uses);
    let after = mean(&within(&outcome, 0, 5 * SECOND, 6 * SECOND), |it| it.uses);
    assert!(after > 3.0 * before, "{before}, {after}");
}

#[test]
fn a_higher_class_is_served_first() {
    let mut setup = setup(Policy::Weights, 64 * MIB, &[100, 100]);
    setup.entrants[1].priority = Priority::new(5).expect("in range");
    setup.entrants[1].start = Nanos::seconds(2);
    let outcome = run(&setup, &vec![Churn::new(30_000, 50); 2]);
    let low = within(&outcome, 0, 4 * SECOND, 6 * SECOND);
    let high = within(&outcome, 1, 4 * SECOND, 6 * SECOND);
    assert!(mean(&high, |it| it.limit) > 0.9 * 64.0 * MIB as f64);
    assert_eq!(mean(&low, |it| it.ideal), 0.0);
    // It goes on with what it cannot be without.
    let uses = mean(&low, |it| it.uses);
    assert!(uses < 12.0 * MIB as f64, "{uses}");
    assert_eq!(outcome.programs[0].outcome.objects, 30_000);
}

/// Table 2 of the same paper in small: beside a hog a heap of a fixed size pages, and one that follows its
/// limit collects more often instead.
#[test]
fn beside_a_hog_an_adaptive_heap_does_not_page() {
    let with = |policy: Policy, hog: bool| {
        let mut setup = setup(policy, 128 * MIB, &[100]);
        setup.entrants[0].settings.heap = Bytes::mib(110);
        setup.hogs.extend(hog.then_some(Hog {
            size: Bytes::mib(64),
            from: Nanos::seconds(1),
            until: Nanos::seconds(5),
            rate: 40 * MIB,
        }));
        let one = run(&setup, &[Churn::new(30_000, 100)]).programs.remove(0);
        (one.faults(), one.ended as f64, one.outcome.full)
    };
    let (fixed, adapts) = (with(Policy::Fixed, false), with(Policy::Weights, false));
    assert_eq!((fixed.0, adapts.0), (0, 0));
    assert!(adapts.1 < 1.1 * fixed.1, "{adapts:?}, {fixed:?}");
    let (pages, collects) = (with(Policy::Fixed, true), with(Policy::Weights, true));
    assert!(pages.0 > 1000 && collects.0 == 0, "{pages:?}, {collects:?}");
    assert!(
        collects.2 > pages.2 && collects.1 < 0.8 * pages.1,
        "{collects:?}, {pages:?}"
    );
    // Isla Vista finds out by paging, and within so few collections that costs more than it saves.
    let isla_vista = with(Policy::IslaVista, true);
    assert!(isla_vista.0 < pages.0, "{isla_vista:?}, {pages:?}");
}

/// The square-root slack of the broker: of two programs of one weight, the one that allocates little is left
/// less than its half, and the other one more.
#[test]
fn what_a_calm_program_does_not_need_serves_a_busy_one() {
    let programs = [
        Churn {
            time: 20 * MILLISECOND,
            ..Churn::new(1000, 50)
        },
        Churn::new(100_000, 50),
    ];
    let late = |policy| {
        let outcome = run(&setup(policy, 64 * MIB, &[100, 100]), &programs);
        [0, 1].map(|it| {
            // A newcomer lends nothing for ten seconds.
            mean(&within(&outcome, it, 13 * SECOND, 16 * SECOND), |it| {
                it.limit
            })
        })
    };
    let ([calm, busy], [equal, other]) = (late(Policy::Shares), late(Policy::Weights));
    assert!((equal / other - 1.0).abs() < 0.02, "{equal}, {other}");
    assert!(calm < 0.8 * equal && busy > 1.15 * other, "{calm}, {busy}");
}
