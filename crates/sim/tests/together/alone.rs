//! One program with memory to spare: each policy that lets its heap be as large as it may is the plain
//! simulator, event for event.

use crate::churn::entrant;
use crate::programs::{DEEDS, Deed, program};
use plimsoll_policy::phases::{Quanta, Rule, Ties};
use plimsoll_sim::paging::Costs;
use plimsoll_sim::threads::heap::{Algorithm, NewRatio};
use plimsoll_sim::threads::{Settings, Streams, What, simulate_and_tell};
use plimsoll_sim::together::{self, Entrant, Error, Policy, Setup};
use plimsoll_trace::Event;
use plimsoll_unit::{Bytes, MIB, Nanos};
use proptest::prelude::*;

/// So that programs of some deeds run for many of the world's slices and of the broker's ticks.
const SLOWER: u64 = 300_000;
const MEMORY: u64 = 64 * MIB;

/// The same stream, slower.
fn slower(event: &Event) -> Event {
    match *event {
        Event::Compute { time } => Event::Compute {
            time: time * SLOWER,
        },
        Event::Sleep { time } => Event::Sleep {
            time: time * SLOWER,
        },
        Event::Park { timeout } => Event::Park {
            timeout: timeout.saturating_mul(SLOWER),
        },
        Event::Wait { monitor, timeout } => Event::Wait {
            monitor,
            timeout: timeout.saturating_mul(SLOWER),
        },
        other => other,
    }
}

fn deeds() -> impl Strategy<Value = Vec<Vec<Deed>>> {
    let thread = prop::collection::vec((0..DEEDS, 0..12u64), 0..100);
    prop::collection::vec(thread, 1..6)
}

fn settings() -> impl Strategy<Value = Settings> {
    let which = (
        prop::sample::select(&Rule::ALL[..]),
        prop::sample::select(&Ties::ALL[..]),
        prop::sample::select(&Algorithm::ALL[..]),
        prop::sample::select(&[0.3, 2.0, 7.0][..]),
    );
    (which, 1..60u64, 1..3usize, 100..2500u64).prop_map(
        |((rule, ties, collector, ratio), time, processors, heap)| Settings {
            processors,
            quanta: Quanta {
                time: Nanos(time * SLOWER),
                bytes: Bytes(40),
                most: Nanos(100 * SLOWER),
            },
            ties,
            new_ratio: NewRatio::new(ratio).expect("a ratio"),
            ..Settings::new(rule, collector, Bytes(heap))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn it_is_the_plain_simulator_event_for_event(
        deeds in deeds(),
        settings in settings(),
        start in 0..3_000_000_000u64,
    ) {
        let streams: Vec<Vec<Event>> = program(&deeds);
        let streams = streams.iter().map(|it| it.iter().map(slower).collect()).collect();
        let streams = Streams::new(streams);
        let mut expected_log: Vec<(u64, What)> = Vec::new();
        let expected = simulate_and_tell(&mut streams.clone(), &settings, &mut expected_log);
        for policy in [Policy::Fixed, Policy::Shares, Policy::Weights, Policy::IslaVista] {
            let setup = Setup {
                memory: Bytes(MEMORY),
                policy,
                costs: Costs::SOLID_STATE,
                reach: 4,
                entrants: vec![Entrant { settings, start: Nanos(start), ..entrant(7, 1, Algorithm::GenMc) }],
                hogs: Vec::new(),
            };
            let (mut program, mut log) = (streams.clone(), Vec::new());
            let found = together::simulate_and_tell(&setup, vec![(&mut program, &mut log)]);
            prop_assert_eq!(&log, &expected_log);
            match (&found, &expected) {
                (Ok(found), Ok(expected)) => {
                    let one = &found.programs[0];
                    prop_assert_eq!(&one.outcome, expected);
                    prop_assert_eq!((one.began, one.ended), (start, start + expected.elapsed));
                    prop_assert_eq!(one.waited(), 0);
                }
                (Err(Error::Program { source, .. }), Err(expected)) => {
                    prop_assert_eq!(source.to_string(), expected.to_string());
                }
                _ => prop_assert!(false, "{found:?} is not {expected:?}"),
            }
        }
    }
}
