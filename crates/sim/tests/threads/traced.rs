//! Traces as programs: the same as their streams in memory, and one of them made up from the paper's Table 1.

use crate::programs::{allocation, program};
use plimsoll_policy::phases::Rule;
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Outcome, Program, Settings, Streams, Survey, Traced, simulate};
use plimsoll_trace::synth::{self, Options, table};
use plimsoll_trace::{Event, Header, ObjectId, ThreadId, TimeUnit, Trace, Writer};
use plimsoll_unit::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

fn trace_of(streams: &[Vec<Event>], unit: TimeUnit) -> Trace {
    let header = Header {
        unit,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), "test", &header).unwrap();
    for (number, stream) in (0..).zip(streams) {
        for event in stream {
            writer.push(ThreadId(number), event).unwrap();
        }
    }
    Trace::from_source(Arc::new(writer.finish().unwrap()), "test").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_trace_is_simulated_like_its_streams(
        deeds in prop::collection::vec(prop::collection::vec((0..13u8, 1..12u64), 0..60), 1..5)
    ) {
        let streams = program(&deeds);
        let trace = trace_of(&streams, TimeUnit::Nanoseconds);
        let survey = Survey::of(&trace).unwrap();
        let settings = Settings::new(Rule::Larf, Algorithm::GenMc, Bytes::mib(1));
        let traced = simulate(&mut Traced::new(&trace, &survey, 1.0), &settings);
        let in_memory = simulate(&mut Streams::new(streams), &settings);
        let said = |result: Result<Outcome, _>| format!("{result:?}");
        prop_assert_eq!(said(traced), said(in_memory));
    }
}

#[test]
fn instructions_become_time_and_the_largest_live_size_is_found() {
    let stream = vec![
        Event::Compute { time: 3000 },
        allocation(1, 40),
        allocation(2, 60),
        Event::Death {
            object: ObjectId(1),
        },
        allocation(3, 10),
        Event::End,
    ];
    let trace = trace_of(&[stream], TimeUnit::Instructions);
    let survey = Survey::of(&trace).unwrap();
    assert_eq!(survey.largest_live, 100);
    let settings = Settings::new(
        Rule::RoundRobin,
        Algorithm::MarkCompact,
        Bytes(survey.largest_live),
    );
    let outcome = simulate(&mut Traced::new(&trace, &survey, 3.0), &settings).unwrap();
    assert_eq!((outcome.computed, outcome.collections()), (1000, 1));
}

#[test]
fn behind_its_end_a_stream_has_no_events() {
    let stream = vec![Event::Compute { time: 3 }, allocation(1, 40)];
    let trace = trace_of(std::slice::from_ref(&stream), TimeUnit::Nanoseconds);
    let survey = Survey::of(&trace).unwrap();
    let mut program = Traced::new(&trace, &survey, 1.0);
    let mut events = Vec::new();
    for _ in 0..5 {
        program.read(0, &mut events).unwrap();
    }
    assert_eq!(events, stream);
    assert_eq!(program.next(0).unwrap(), None);
}

#[test]
fn a_damaged_trace_is_told_with_its_place() {
    let stream: Vec<Event> = (1..2000)
        .map(|number| allocation(number * number, 8 + number))
        .collect();
    let header = Header::default();
    let mut writer = Writer::new(Vec::new(), "test", &header).unwrap();
    for event in &stream {
        writer.push(ThreadId(0), event).unwrap();
    }
    let mut bytes = writer.finish().unwrap();
    let whole = Trace::from_source(Arc::new(bytes.clone()), "whole").unwrap();
    let survey = Survey::of(&whole).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    let damaged = Trace::from_source(Arc::new(bytes), "damaged").unwrap();
    let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(1 << 30));
    let error = simulate(&mut Traced::new(&damaged, &survey, 1.0), &settings).unwrap_err();
    assert!(
        error.to_string().contains("damaged: block at byte"),
        "{error}"
    );
    assert!(Survey::of(&damaged).is_err());
}

#[test]
fn a_program_of_table_1_runs_under_all_and_the_same_each_time() {
    let program = table::PROGRAMS
        .iter()
        .find(|it| it.name == "hsqldb")
        .unwrap();
    let options = Options {
        scale: 100.0,
        ..Options::default()
    };
    let bytes = synth::write(program, &options, Vec::new(), "hsqldb").unwrap();
    let trace = Trace::from_source(Arc::new(bytes), "hsqldb").unwrap();
    let survey = Survey::of(&trace).unwrap();
    for collector in Algorithm::ALL {
        for rule in Rule::ALL {
            let settings = Settings {
                processors: 2,
                ..Settings::new(rule, collector, Bytes(4 * survey.largest_live))
            };
            let run = || simulate(&mut Traced::new(&trace, &survey, 1.0), &settings).unwrap();
            let outcome = run();
            assert_eq!(outcome, run(), "{rule:?} {collector:?}");
            assert_eq!(outcome.threads, 81);
            assert_eq!(
                outcome.allocated,
                outcome.freed + outcome.live + outcome.garbage
            );
            let bound = (u64::from(settings.patience) + 1) * outcome.threads;
            assert!(
                outcome.longest_wait < bound,
                "{rule:?}: {}",
                outcome.longest_wait
            );
        }
    }
}

#[test]
fn a_trace_that_was_cut_is_simulated_as_far_as_it_goes() {
    let program = table::find("lusearch").unwrap();
    let options = Options {
        shorten: 100.0,
        ..Options::default()
    };
    let mut bytes = synth::write(program, &options, Vec::new(), "whole").unwrap();
    bytes.truncate(bytes.len() * 3 / 5);
    let trace = Trace::from_source(Arc::new(bytes), "cut").unwrap();
    let survey = Survey::of(&trace).unwrap();
    for rule in Rule::ALL {
        let settings = Settings::new(rule, Algorithm::GenMc, Bytes(4 * survey.largest_live));
        let outcome = simulate(&mut Traced::new(&trace, &survey, 1.0), &settings).unwrap();
        assert!(outcome.unborn > 0, "{outcome:?}");
        assert!(outcome.objects > 10_000);
    }
}
