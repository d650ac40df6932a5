//! The simulator of threads: against a literal one, against laws of conservation, against the paper.

mod collectors;
mod faults;
mod paper;
mod programs;
mod reference;
mod reference_cells;
mod reference_heap;
mod reference_monitors;
mod reference_numbers;
mod reference_regions;
mod reference_rules;
mod traced;

use collectors::new_ratio;
use plimsoll_policy::phases::{Quanta, Rule, Ties};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Costs, Outcome, Settings, SimError, Streams, What, simulate_and_tell};
use plimsoll_trace::{Event, ThreadId};
use plimsoll_unit::{Bytes, Nanos};
use programs::{DEEDS, program};
use proptest::prelude::*;
use reference::Reference;
use reference_numbers::Numbers;

fn name(error: &SimError) -> &'static str {
    match error {
        SimError::Deadlock { .. } => "deadlock",
        SimError::NeverStarted(_) => "never started",
        SimError::NeverBorn { .. } => "never born",
        SimError::HeapTooSmall { .. } => "heap",
        SimError::NeverReleased { .. } => "never released",
        SimError::StartedTwice { .. } => "started twice",
        SimError::NotHeld { .. } => "not held",
        SimError::NoThread { .. } => "no thread",
        other => panic!("{other}"),
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let quanta = (1..60u64, 1..120u64, 1..200u64);
    let costs = (0..3000u64, 0..9000u64, 0..4000u64);
    let which = (
        prop::sample::select(&Rule::ALL[..]),
        prop::sample::select(&Ties::ALL[..]),
        prop::sample::select(&Algorithm::ALL[..]),
    );
    (
        which,
        quanta,
        costs,
        1..4usize,
        0..4u32,
        any::<bool>(),
        (100..2500u64, new_ratio()),
    )
        .prop_map(
            |(
                (rule, ties, collector),
                (time, bytes, most),
                costs,
                processors,
                patience,
                priorities,
                (heap, new_ratio),
            )| Settings {
                processors,
                rule,
                ties,
                quanta: Quanta {
                    time: Nanos(time),
                    bytes: Bytes(bytes),
                    most: Nanos(most),
                },
                patience,
                priorities,
                collector,
                heap: Bytes(heap),
                new_ratio,
                costs: Costs {
                    copied_byte: costs.0,
                    marked_byte: costs.0 / 2,
                    compacted_byte: costs.0 / 3,
                    swept_byte: costs.0 / 5,
                    contention: costs.1,
                    switch: costs.2,
                },
            },
        )
}

fn deeds() -> impl Strategy<Value = Vec<Vec<(u8, u64)>>> {
    let thread = prop::collection::vec((0..DEEDS, 0..12u64), 0..150);
    prop::collection::vec(thread, 1..8)
}

/// Whether the end of a trace was lost, and what is left of it: events of each thread, and the first thread
/// that is not in it.
fn cuts() -> impl Strategy<Value = (bool, Option<(Vec<usize>, u32)>)> {
    let left = (prop::collection::vec(0..160usize, 8), 1..12u32);
    (any::<bool>(), prop::option::weighted(0.3, left))
}

/// Cuts streams, each after its number of events in `left`. Threads from `lost` on are gone: events that name
/// them get other numbers.
fn cut(streams: &mut [Vec<Event>], left: &[usize], lost: u32) {
    let gone = |thread: &mut ThreadId| {
        if thread.0 >= lost {
            thread.0 += 100;
        }
    };
    for (stream, left) in streams.iter_mut().zip(left) {
        stream.truncate(*left);
        for event in stream {
            match event {
                Event::Start { thread, .. } | Event::Join { thread } | Event::Unpark { thread } => {
                    gone(thread);
                }
                _ => {}
            }
        }
    }
}

/// Checks the laws that hold of each outcome.
fn check_conservation(outcome: &Outcome, log: &[(u64, What)], settings: &Settings) {
    assert_eq!(
        outcome.allocated,
        outcome.freed + outcome.live + outcome.garbage
    );
    assert!(outcome.largest_live >= outcome.live && outcome.largest_live <= outcome.heap);
    assert!(outcome.greatest_work <= outcome.work && outcome.greatest_pause <= outcome.paused);
    let count = |what: fn(&What) -> bool| log.iter().filter(|(_, one)| what(one)).count() as u64;
    assert_eq!(
        count(|what| matches!(what, What::Ended { .. })),
        outcome.threads
    );
    assert_eq!(
        count(|what| matches!(what, What::Collected(_))),
        outcome.collections()
    );
    if settings.processors == 1 {
        assert!(
            outcome.elapsed >= outcome.execution,
            "idle time is not execution"
        );
    }
    let bound = (u64::from(settings.patience) + 1) * outcome.threads;
    assert!(outcome.longest_wait < bound, "nobody starves");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20000))]

    #[test]
    fn it_agrees_with_the_literal_one_event_for_event(
        deeds in deeds(), settings in settings(), (is_cut, cuts) in cuts()
    ) {
        let mut streams = program(&deeds);
        if let Some((left, lost)) = cuts {
            cut(&mut streams, &left, lost);
        }
        let mut literal = Reference::new(&streams, is_cut, &settings);
        let expected = literal.run();
        let mut log = Vec::new();
        let mut program = Streams::new(streams.clone());
        program.is_cut = is_cut;
        let found = simulate_and_tell(&mut program, &settings, &mut log);
        for (at, pair) in log.iter().zip(&literal.log).enumerate() {
            prop_assert_eq!(pair.0, pair.1, "entry {} of the log", at);
        }
        prop_assert_eq!(log.len(), literal.log.len());
        match (found, expected) {
            (Ok(outcome), Ok(())) => {
                prop_assert_eq!(Numbers::of(&outcome), literal.numbers);
                check_conservation(&outcome, &log, &settings);
            }
            (Err(error), Err(expected)) => prop_assert_eq!(name(&error), expected),
            (found, expected) => prop_assert!(false, "{found:?} is not {expected:?}"),
        }
    }
}
