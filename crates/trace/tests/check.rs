//! Contradictions in a trace are found, with their places.

mod common;

use common::{Script, alloc, bytes_of, open};
use plimsoll_trace::check::{Fault, MAX_FAULTS, Report, Wrong, check};
use plimsoll_trace::{Event, Header, MonitorId, ObjectId, ThreadId};

const MAIN: ThreadId = ThreadId(0);
const OTHER: ThreadId = ThreadId(5);

fn stamp(order: u64) -> Event {
    Event::Stamp { order }
}

fn death(object: u64) -> Event {
    Event::Death {
        object: ObjectId(object),
    }
}

fn enter(monitor: u64) -> Event {
    Event::Enter {
        monitor: MonitorId(monitor),
    }
}

fn exit(monitor: u64) -> Event {
    Event::Exit {
        monitor: MonitorId(monitor),
    }
}

fn report(script: &[(ThreadId, Event)]) -> Report {
    check(&open(bytes_of(&Header::default(), script)).unwrap()).unwrap()
}

/// The faults of events, as places and messages.
fn faults(script: &[(ThreadId, Event)]) -> Vec<(u32, u64, String)> {
    let told = |fault: &Fault| match fault {
        Fault::Event { at, why } => (at.thread.0, at.event, why.to_string()),
        other => panic!("{other}"),
    };
    report(script).faults.iter().map(told).collect()
}

fn main_thread(events: &[Event]) -> Script {
    events.iter().map(|event| (MAIN, *event)).collect()
}

#[test]
fn a_trace_that_makes_sense_has_no_fault() {
    let start = Event::Start {
        thread: OTHER,
        priority: 5,
    };
    let script = [
        (MAIN, stamp(1)),
        (MAIN, alloc(1, 100)),
        (MAIN, alloc(2, 24)),
        (MAIN, start),
        (OTHER, stamp(2)),
        (OTHER, enter(1)),
        (OTHER, enter(1)),
        (OTHER, death(1)),
        (OTHER, alloc(3, 50)),
        (OTHER, exit(1)),
        (OTHER, exit(1)),
        (OTHER, Event::End),
        (MAIN, stamp(3)),
        (MAIN, Event::Join { thread: OTHER }),
        (MAIN, death(3)),
        (MAIN, Event::End),
    ];
    let report = report(&script);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(report.largest_live, Some(124));
    assert_eq!((report.immortal, report.largest_object), ((1, 24), 100));
}

#[test]
fn an_object_that_dies_before_it_is_born_is_found() {
    let found = faults(&main_thread(&[death(7), alloc(7, 8), Event::End]));
    assert_eq!(
        found,
        [(
            0,
            0,
            "object 7 dies before it is born (thread 0, event 1)".into()
        )]
    );
    // In another thread that is certain only where the recorded order is known.
    let script = [
        (MAIN, stamp(1)),
        (MAIN, death(7)),
        (MAIN, Event::End),
        (OTHER, stamp(2)),
        (OTHER, alloc(7, 8)),
        (OTHER, Event::End),
    ];
    assert_eq!(faults(&script).len(), 1);
    let unstamped: Script = script
        .into_iter()
        .filter(|(_, event)| event.name() != "stamp")
        .collect();
    let report = report(&unstamped);
    assert!(report.faults.is_empty() && report.largest_live.is_none());
    assert_eq!(report.early_deaths, 1);
}

#[test]
fn deaths_of_nothing_and_second_births_are_found() {
    let found = faults(&main_thread(&[
        alloc(1, 8),
        death(1),
        death(1),
        death(2),
        Event::End,
    ]));
    assert_eq!(found.iter().map(|it| it.1).collect::<Vec<_>>(), [2, 3]);
    assert!(found[0].2.contains("has died before"));
    let found = faults(&main_thread(&[alloc(1, 8), alloc(1, 8), Event::End]));
    assert!(found[0].1 == 1 && found[0].2.contains("number lives"));
}

#[test]
fn monitors_that_are_not_released_or_not_held_are_found() {
    let found = faults(&main_thread(&[
        enter(1),
        enter(2),
        exit(2),
        exit(2),
        Event::Notify {
            monitor: MonitorId(9),
            all: true,
        },
        Event::End,
    ]));
    let places: Vec<u64> = found.iter().map(|it| it.1).collect();
    assert_eq!(places, [3, 4, 0]);
    assert!(
        found[2]
            .2
            .contains("monitor 1 is entered here and never released")
    );
}

#[test]
fn threads_that_are_not_there_start_twice_or_do_not_end_are_found() {
    let start = |thread| Event::Start {
        thread: ThreadId(thread),
        priority: 5,
    };
    let script = [
        (MAIN, start(9)),
        (MAIN, start(5)),
        (MAIN, start(5)),
        (MAIN, Event::Join { thread: MAIN }),
        (OTHER, alloc(1, 8)),
    ];
    let found = faults(&script);
    let messages: Vec<&str> = found.iter().map(|it| it.2.as_str()).collect();
    assert_eq!(messages.len(), 5, "{messages:?}");
    assert!(messages[0].contains("thread 9 is named here"));
    assert!(messages[1].contains("thread 5 is started, and was started before"));
    assert!(messages[2].contains("its own end"));
    assert!(
        messages[3..]
            .iter()
            .all(|it| it.contains("its thread does not"))
    );
}

#[test]
fn many_faults_are_counted_and_few_are_kept() {
    let script: Script = (0..1000).map(|_| (MAIN, exit(1))).collect();
    let report = report(&script);
    assert_eq!(
        (report.faults.len(), report.faults_count),
        (MAX_FAULTS, 1001)
    );
    assert!(matches!(
        report.faults[0],
        Fault::Event {
            why: Wrong::ExitUnheld { .. },
            ..
        }
    ));
}

#[test]
fn a_cut_trace_is_one_fault() {
    let script: Script = (1..90_000).map(|it| (MAIN, alloc(it * 5, it))).collect();
    let mut bytes = bytes_of(&Header::default(), &script);
    bytes.truncate(bytes.len() - 30_000);
    let report = check(&open(bytes).unwrap()).unwrap();
    assert_eq!(report.faults_count, 1);
    assert!(
        report.faults[0]
            .to_string()
            .contains("the trace is cut at byte")
    );
    assert!(report.streams[&MAIN].objects > 10_000);
}

#[test]
fn gigabytes_are_counted() {
    let report = report(&main_thread(&[alloc(1, 3 << 30), alloc(2, 8), Event::End]));
    assert_eq!((report.very_large, report.largest_object), (1, 3 << 30));
    assert!(report.faults.is_empty());
}
