//! The paper's example, its formula, and what it leaves open.

use crate::programs::allocation;
use plimsoll_policy::phases::{Quanta, Rule, TIME_BOUND};
use plimsoll_sim::threads::heap::{Algorithm, Collection};
use plimsoll_sim::threads::{Outcome, Settings, Streams, What, simulate, simulate_and_tell};
use plimsoll_trace::{Event, MonitorId, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, Nanos};

/// Time quantum of the example, nanoseconds, and objects that a thread allocates in it.
const QUANTUM: u64 = 10;
/// Bytes of an object.
const SIZE: u64 = 100;
/// Bytes that a thread allocates before it computes: four quanta of objects.
const WORKING_SET: u64 = 4 * QUANTUM * SIZE;

/// A thread of Figure 1: it allocates for four quanta, then computes for four, at whose end all is dead.
fn phase(thread: u64) -> Vec<Event> {
    let objects = thread * 1000..thread * 1000 + WORKING_SET / SIZE;
    let mut stream = Vec::new();
    for object in objects.clone() {
        stream.push(allocation(object, SIZE));
        stream.push(Event::Compute { time: 1 });
    }
    stream.push(Event::Compute { time: 4 * QUANTUM });
    stream.extend(objects.map(|object| Event::Death {
        object: ObjectId(object),
    }));
    stream.push(Event::End);
    stream
}

/// The collections of Figure 1 under a discipline: three such threads, and a nursery for two working sets.
fn figure_1(rule: Rule) -> (Outcome, Vec<Collection>) {
    let settings = Settings {
        quanta: Quanta {
            time: Nanos(QUANTUM),
            // Slightly larger than the working set, as section 3.2 wants it.
            bytes: Bytes(WORKING_SET + SIZE),
            most: Nanos(1000 * QUANTUM),
        },
        ..Settings::new(rule, Algorithm::GenMc, Bytes(3 * 2 * WORKING_SET))
    };
    let mut program = Streams::new((0..3).map(phase).collect());
    let mut log = Vec::new();
    let outcome = simulate_and_tell(&mut program, &settings, &mut log).unwrap();
    let collections = log.into_iter().filter_map(|(_, what)| match what {
        What::Collected(collection) => Some(collection),
        _ => None,
    });
    (outcome, collections.collect())
}

#[test]
fn round_robin_collects_uselessly_and_the_others_do_not() {
    let (round_robin, collections) = figure_1(Rule::RoundRobin);
    assert_eq!(collections.len(), 1);
    assert_eq!(collections[0].freed, 0, "no thread has finished its phase");
    assert_eq!(collections[0].work, 2 * WORKING_SET);

    let (larf, collections) = figure_1(Rule::Larf);
    assert_eq!(collections[0].freed, WORKING_SET, "one thread is done");

    let (mqrr, collections) = figure_1(Rule::Mqrr);
    assert_eq!(
        collections[0].freed,
        2 * WORKING_SET,
        "two threads are done"
    );
    assert_eq!(mqrr.work, 0);

    assert!(mqrr.mark_cons() < larf.mark_cons() && larf.mark_cons() < round_robin.mark_cons());
    assert!(mqrr.switches < larf.switches && larf.switches < round_robin.switches);
    assert!(mqrr.turnaround < larf.turnaround && larf.turnaround < round_robin.turnaround);
}

#[test]
fn the_execution_time_is_the_formula() {
    let monitor = MonitorId(1);
    // The first is preempted in the monitor, so the second finds it held.
    let stream = |object| {
        vec![
            Event::Enter { monitor },
            allocation(object, 600),
            Event::Compute { time: 2_000_000 },
            Event::Exit { monitor },
            Event::Death {
                object: ObjectId(object),
            },
            allocation(object + 10, 600),
            Event::End,
        ]
    };
    let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(2000));
    let outcome = simulate(&mut Streams::new(vec![stream(1), stream(2)]), &settings).unwrap();
    assert_eq!(outcome.contentions, 1);
    assert_eq!(
        outcome.switches, 3,
        "preempted, blocked, and at the first one's end"
    );
    assert_eq!((outcome.collections(), outcome.work), (1, 600));
    // 1.8e-8 s a byte, 2.7e-6 s a contention, 2.3e-9 s a switch.
    let overhead = 600 * 18 + 2700 + 3 * 23 / 10;
    assert_eq!(outcome.execution, 2 * 2_000_000 + overhead);
    assert_eq!(
        outcome.elapsed, outcome.execution,
        "one processor is never idle"
    );
    assert_eq!(outcome.mark_cons(), 600.0 / 2400.0);
    assert_eq!(outcome.greatest_pause(), 600.0 / 2000.0);
}

#[test]
fn a_thread_is_created_where_its_creator_stands() {
    let main = vec![
        Event::Compute { time: 5 },
        allocation(1, 100),
        Event::Start {
            thread: ThreadId(1),
            priority: 5,
        },
        Event::Compute { time: 7_000_000 },
        Event::Join {
            thread: ThreadId(1),
        },
        Event::End,
    ];
    let other = vec![Event::Compute { time: 30 }, Event::End];
    let settings = Settings::new(Rule::RoundRobin, Algorithm::SemiSpace, Bytes(1000));
    let mut log = Vec::new();
    let mut program = Streams::new(vec![main, other]);
    let outcome = simulate_and_tell(&mut program, &settings, &mut log).unwrap();
    assert!(log.contains(&(5, What::Ready { thread: 1 })), "{log:?}");
    assert_eq!((outcome.threads, outcome.computed), (2, 7_000_035));
}

#[test]
fn a_thread_that_spins_does_not_stop_the_others() {
    let spins = vec![
        Event::Compute {
            time: (TIME_BOUND * 10).0,
        },
        Event::End,
    ];
    let other = vec![Event::Compute { time: 1 }, Event::End];
    let settings = Settings::new(Rule::Mqrr, Algorithm::GenCopy, Bytes(1000));
    let mut program = Streams::new(vec![spins, other.clone(), other]);
    let outcome = simulate(&mut program, &settings).unwrap();
    assert!(outcome.longest_wait_time <= (TIME_BOUND + Nanos(100)).0);
}

#[test]
fn processors_work_side_by_side_and_stop_together() {
    let works = |object| {
        vec![
            Event::Compute { time: 1000 },
            allocation(object, 80),
            Event::Death {
                object: ObjectId(object),
            },
            Event::Compute { time: 1000 },
            Event::End,
        ]
    };
    let run = |processors| {
        let settings = Settings {
            processors,
            ..Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(100))
        };
        let streams = (1..=4).map(works).collect();
        simulate(&mut Streams::new(streams), &settings).unwrap()
    };
    let (one, two, four) = (run(1), run(2), run(4));
    assert_eq!(one.computed, four.computed);
    assert_eq!((one.elapsed, two.elapsed, four.elapsed), (8006, 4002, 2000));
    assert_eq!((one.collections(), one.work), (3, 0));
}

#[test]
fn priorities_count_only_where_they_are_asked_for() {
    let start = |thread, priority| Event::Start {
        thread: ThreadId(thread),
        priority,
    };
    let main = vec![start(1, 1), start(2, 10), Event::End];
    let other = vec![Event::Compute { time: 1 }, Event::End];
    let first_of = |priorities| {
        let settings = Settings {
            priorities,
            ..Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(100))
        };
        let mut log = Vec::new();
        let mut program = Streams::new(vec![main.clone(), other.clone(), other.clone()]);
        simulate_and_tell(&mut program, &settings, &mut log).unwrap();
        let mut ended = log.into_iter().filter_map(|(_, what)| match what {
            What::Ended { thread } if thread > 0 => Some(thread),
            _ => None,
        });
        ended.next()
    };
    assert_eq!((first_of(false), first_of(true)), (Some(1), Some(2)));
}
