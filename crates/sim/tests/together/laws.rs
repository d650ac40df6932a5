//! Laws of any programs in any memory: nothing is granted or used twice, nothing is lost, and the same input
//! gives the same bytes.

use crate::churn::{Churn, setup};
use plimsoll_sim::paging::Costs;
use plimsoll_sim::threads::Program;
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::together::{Hog, Outcome, Policy, Setup, simulate};
use plimsoll_unit::{Bytes, MIB, Nanos};
use plimsoll_wire::messages::{Priority, Weight};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A program: weight, priority, start and stop in ms, collector, live objects and objects.
type One = (u32, i32, u64, Option<u64>, usize, u64, u64);

fn one() -> impl Strategy<Value = One> {
    (
        1..=10_000u32,
        -1..=1i32,
        0..1500u64,
        prop::option::of(1..1500u64),
        0..Algorithm::ALL.len(),
        1..40u64,
        100..3000u64,
    )
}

fn hog() -> impl Strategy<Value = Hog> {
    (0..16u64, 0..1000u64, 1..1500u64, 1..200u64).prop_map(|(size, from, lasts, rate)| Hog {
        size: Bytes::mib(size),
        from: Nanos::millis(from),
        until: Nanos::millis(from + lasts),
        rate: rate * MIB,
    })
}

fn made(memory: u64, policy: Policy, all: &[One], hogs: Vec<Hog>) -> (Setup, Vec<Churn>) {
    let mut setup = setup(policy, memory, &vec![1; all.len()]);
    setup.hogs = hogs;
    setup.costs = Costs::SOLID_STATE;
    let mut programs = Vec::new();
    for (entrant, &(weight, priority, start, stop, which, live, objects)) in
        setup.entrants.iter_mut().zip(all)
    {
        entrant.weight = Weight::new(weight).expect("in range");
        entrant.priority = Priority::new(priority).expect("in range");
        (entrant.start, entrant.stop) = (
            Nanos::millis(start),
            stop.map(|stop| Nanos::millis(start + stop)),
        );
        entrant.settings.collector = Algorithm::ALL[which];
        programs.push(Churn::new(objects, live));
    }
    (setup, programs)
}

fn run(setup: &Setup, programs: &[Churn]) -> Result<Outcome, String> {
    let mut programs = programs.to_vec();
    let mut programs: Vec<&mut dyn Program> = programs
        .iter_mut()
        .map(|it| it as &mut dyn Program)
        .collect();
    simulate(setup, &mut programs).map_err(|error| error.to_string())
}

/// Nothing is granted or used twice.
fn never_too_much(setup: &Setup, outcome: &Outcome) -> Result<(), TestCaseError> {
    let memory = setup.memory.0;
    prop_assert!(outcome.most_granted <= memory);
    let mut sums: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
    for point in outcome.programs.iter().flat_map(|it| &it.points) {
        let sum = sums.entry(point.at).or_default();
        for (sum, value) in sum.iter_mut().zip([point.uses, point.limit, point.ideal]) {
            *sum += value;
        }
    }
    // An event at the time of a point takes another point: the last one is what holds.
    let hogs: BTreeMap<u64, u64> = outcome.hogs.iter().copied().collect();
    for (at, held) in hogs {
        sums.entry(at).or_default()[0] += held;
    }
    for [uses, limit, ideal] in sums.into_values() {
        prop_assert!(uses <= memory, "{uses}");
        prop_assert!(limit <= memory && ideal <= memory);
    }
    Ok(())
}

/// Two points of the hog are at one time here: that of the record, and that of its last block.
#[test]
fn what_a_hog_holds_is_counted_once_at_a_time() {
    let hog = Hog {
        size: Bytes::mib(10),
        from: Nanos::ZERO,
        until: Nanos::millis(393),
        rate: 24 * MIB,
    };
    let only = [(1, 0, 292, None, 0, 1, 525)];
    let (setup, programs) = made(51 * MIB, Policy::ALL[3], &only, vec![hog]);
    let outcome = run(&setup, &programs).unwrap();
    assert!(outcome.hogs.windows(2).any(|two| two[0].0 == two[1].0));
    never_too_much(&setup, &outcome).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_granted_twice_or_lost(
        memory in 16..64u64,
        policy in 0..Policy::ALL.len(),
        all in prop::collection::vec(one(), 1..5),
        hogs in prop::collection::vec(hog(), 0..2),
    ) {
        let policy = Policy::ALL[policy];
        let (setup, programs) = made(memory * MIB, policy, &all, hogs);
        let outcome = match run(&setup, &programs) {
            Ok(outcome) => outcome,
            Err(said) => {
                prop_assert!(said.contains("the heap is too small"), "{said}");
                return Ok(());
            }
        };
        never_too_much(&setup, &outcome)?;
        prop_assert_eq!(&run(&setup, &programs).expect("as before"), &outcome);
        for (one, entrant) in outcome.programs.iter().zip(&setup.entrants) {
            let it = &one.outcome;
            prop_assert_eq!(it.allocated, it.freed + it.live + it.garbage);
            let most = entrant.settings.heap.0;
            prop_assert!(one.points.iter().all(|point| point.heap <= most));
            prop_assert!(one.revocations.met <= one.revocations.batches);
            prop_assert_eq!(one.stopped, entrant.stop.is_some_and(|stop| Nanos(one.ended) == stop));
            prop_assert!(one.ended >= one.began && one.ended <= outcome.ended);
            if policy == Policy::Fixed {
                prop_assert!(one.points.iter().all(|point| point.heap == most));
            }
        }
    }
}
