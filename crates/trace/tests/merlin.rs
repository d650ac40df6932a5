//! The Merlin algorithm against what it is to compute, literally: after each event, all that can be reached.

mod common;

use common::{alloc, bytes_of, open};
use plimsoll_trace::merlin::{Merlin, add_deaths, named};
use plimsoll_trace::{ClassId, Event, Header, MonitorId, ObjectId, ThreadId, Trace, check};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// Objects that a program may have, and below them those that were there before it.
const OBJECTS: u64 = 24;
const BEFORE: u64 = 3;

/// References by holder and field. A static field's holder is 1000 and more.
type Graph = BTreeMap<(u64, u32), u64>;

fn reach(graph: &Graph, born: &BTreeSet<u64>, named: &[u64]) -> BTreeSet<u64> {
    let is_root = |holder: u64| holder >= 1000 || !born.contains(&holder);
    let targets = graph.iter().filter(|((holder, _), _)| is_root(*holder));
    let mut stack: Vec<u64> = targets.map(|(_, target)| *target).collect();
    stack.extend(named);
    let mut reached = BTreeSet::new();
    while let Some(object) = stack.pop() {
        if reached.insert(object) {
            stack.extend(
                graph
                    .range((object, 0)..=(object, u32::MAX))
                    .map(|(_, target)| *target),
            );
        }
    }
    reached
}

/// The last event during which each object could be reached; none for those that can be at the end.
fn literally(events: &[Event]) -> Vec<(u64, ObjectId)> {
    let (mut graph, mut born) = (Graph::new(), BTreeSet::new());
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (time, event) in events.iter().enumerate() {
        let names: Vec<u64> = named(event).map(|object| object.0).collect();
        let mut reached = reach(&graph, &born, &names);
        let mut set = |holder: u64, slot: u32, target: ObjectId| match target.0 {
            0 => graph.remove(&(holder, slot)),
            target => graph.insert((holder, slot), target),
        };
        match *event {
            Event::Alloc { object, .. } => {
                born.insert(object.0);
            }
            Event::Store {
                holder,
                slot,
                target,
            } => {
                set(holder.0, slot, target);
            }
            Event::StoreStatic {
                class,
                slot,
                target,
            } => {
                set(1000 + u64::from(class.0.get()), slot, target);
            }
            _ => {}
        }
        reached.extend(reach(&graph, &born, &names));
        for object in reached.intersection(&born) {
            last.insert(*object, time as u64);
        }
    }
    let at_end = reach(&graph, &born, &[]);
    let mut deaths: Vec<(u64, ObjectId)> = last
        .into_iter()
        .filter(|(object, _)| !at_end.contains(object))
        .map(|(object, time)| (time, ObjectId(object)))
        .collect();
    deaths.sort();
    deaths
}

/// Events that a thread may have. Each object is allocated before all other uses of it.
fn program() -> impl Strategy<Value = Vec<Event>> {
    let step = (0..10u8, 1..=OBJECTS, 0..=OBJECTS, 0..4u32);
    proptest::collection::vec(step, 0..200).prop_map(|steps| {
        let mut next = BEFORE;
        let mut events = Vec::new();
        for (kind, one, other, slot) in steps {
            let object = ObjectId(one.min(next));
            let target = ObjectId(other.min(next));
            let class = ClassId(NonZeroU32::new(slot / 2 + 1).unwrap());
            events.push(match kind {
                0..=2 if next < OBJECTS => {
                    next += 1;
                    alloc(next, 16 + 8 * (next % 3))
                }
                3..=6 => Event::Store {
                    holder: object,
                    slot,
                    target,
                },
                7 => Event::StoreStatic {
                    class,
                    slot: slot % 2,
                    target,
                },
                8 => Event::Notify {
                    monitor: MonitorId(object.0),
                    all: true,
                },
                _ => Event::Use { object },
            });
        }
        events
    })
}

/// The deaths, found by a collection after each `each` events.
fn computed(events: &[Event], each: usize) -> Vec<(u64, ObjectId)> {
    let mut last = BTreeMap::new();
    for (time, event) in events.iter().enumerate() {
        last.extend(named(event).map(|object| (object, time as u64)));
    }
    let mut merlin = Merlin::default();
    let mut deaths = Vec::new();
    for (time, event) in events.iter().enumerate() {
        merlin.event(event, |object| last[&object]);
        if time % each == 0 {
            let found = merlin.collect();
            // All that are found died since the collection before.
            assert!(
                found.iter().all(|(at, _)| at + each as u64 > time as u64),
                "{found:?} at {time}"
            );
            deaths.extend(found);
        }
    }
    deaths.extend(merlin.collect());
    deaths.sort();
    deaths
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn deaths_are_what_cannot_be_reached(events in program(), each in 1..40usize) {
        prop_assert_eq!(computed(&events, each), literally(&events));
    }

    #[test]
    fn a_raw_trace_becomes_one_that_makes_sense(
        events in program(),
        threads in proptest::collection::vec(0..3u32, 200),
    ) {
        let header = Header { raw: true, ..Header::default() };
        let mut script = Vec::new();
        for (time, (event, thread)) in events.iter().zip(&threads).enumerate() {
            script.push((ThreadId(*thread), Event::Stamp { order: 1 + time as u64 }));
            script.push((ThreadId(*thread), *event));
        }
        let raw = open(bytes_of(&header, &script)).unwrap();
        let table = tempfile::tempfile().unwrap();
        let (bytes, found) = add_deaths::write(&raw, &BTreeMap::new(), table, Vec::new(), "deaths").unwrap();
        let trace = open(bytes).unwrap();
        let report = check::check(&trace).unwrap();
        prop_assert_eq!(report.faults_count, 0, "{:?}", report.faults);
        prop_assert_eq!(report.largest_live.unwrap_or(0), found.largest_live);
        let deaths = literally(&events);
        prop_assert_eq!(found.deaths, deaths.len() as u64);
        prop_assert_eq!(report.immortal.0, found.objects - found.deaths);
        // Each death stands in the stream of the thread whose event was the last that reached it.
        for (time, object) in deaths {
            let thread = ThreadId(threads[time as usize]);
            let mut stream = trace.stream(thread).unwrap().map(Result::unwrap);
            let found = stream.any(|event| event == Event::Death { object });
            prop_assert!(found, "{} in thread {}", object, thread);
        }
    }
}

#[test]
fn a_chain_dies_with_its_head_and_a_ring_does_not_keep_itself() {
    let store = |holder, target| Event::Store {
        holder: ObjectId(holder),
        slot: 0,
        target: ObjectId(target),
    };
    let used = |object| Event::Use {
        object: ObjectId(object),
    };
    let events = [
        alloc(10, 16),
        alloc(11, 16),
        store(10, 11),
        alloc(12, 16),
        store(11, 12),
        store(12, 10),
        used(11),
        alloc(13, 16),
    ];
    let deaths = computed(&events, 3);
    let expected =
        [(6, 10), (6, 11), (6, 12), (7, 13)].map(|(time, object)| (time, ObjectId(object)));
    assert_eq!(deaths, expected, "the ring lives until its last use");
    assert_eq!(literally(&events), expected);
}

/// The trace that is made of a raw one, whose events come in this order.
fn mended_trace(events: &[(u32, Event)]) -> Trace {
    let header = Header {
        raw: true,
        ..Header::default()
    };
    let mut script = Vec::new();
    for (order, (thread, event)) in (1..).zip(events) {
        script.push((ThreadId(*thread), Event::Stamp { order }));
        script.push((ThreadId(*thread), *event));
    }
    let raw = open(bytes_of(&header, &script)).unwrap();
    let table = tempfile::tempfile().unwrap();
    let (bytes, _) =
        add_deaths::write(&raw, &BTreeMap::new(), table, Vec::new(), "mended").unwrap();
    let trace = open(bytes).unwrap();
    let report = check::check(&trace).unwrap();
    assert_eq!(report.faults_count, 0, "{:?}", report.faults);
    trace
}

/// The streams of that trace, without stamps.
fn mended(events: &[(u32, Event)]) -> BTreeMap<u32, Vec<Event>> {
    let trace = mended_trace(events);
    let events = |thread: &ThreadId| {
        let stream = trace.stream(*thread).unwrap().map(Result::unwrap);
        let events = stream.filter(|event| !matches!(event, Event::Stamp { .. }));
        (thread.0, events.collect())
    };
    trace.streams().keys().map(events).collect()
}

#[test]
fn a_thread_that_waits_when_the_machine_ends_waits_for_nothing() {
    let monitor = MonitorId(7);
    let (enter, exit) = (Event::Enter { monitor }, Event::Exit { monitor });
    let wait = Event::Wait {
        monitor,
        timeout: 60_000_000_000,
    };
    let time = Event::Compute { time: 5 };
    let recorded = [
        (0, enter),
        (0, time),
        (0, wait),
        (0, exit),
        (0, enter),
        (0, wait),
    ];
    let streams = mended(&recorded);
    assert_eq!(
        streams[&0],
        [enter, time, wait, exit, enter, exit, Event::End]
    );
}

#[test]
fn a_wait_stands_behind_a_stamp_that_tells_when_it_was_over() {
    let monitor = MonitorId(7);
    let (enter, exit) = (Event::Enter { monitor }, Event::Exit { monitor });
    let wait = Event::Wait {
        monitor,
        timeout: 5,
    };
    let notify = Event::Notify { monitor, all: true };
    let start = Event::Start {
        thread: ThreadId(1),
        priority: 5,
    };
    // The first notification ends the wait, and the second one comes when it is over.
    let both = [enter, notify, exit].map(|event| (1, event));
    let recorded = [
        &[(0, start), (0, enter), (0, wait)][..],
        &both,
        &[(0, exit)],
        &both,
        &[(1, Event::End), (0, Event::End)],
    ]
    .concat();
    let trace = mended_trace(&recorded);
    let waits = common::stream(&trace, ThreadId(0));
    let at = waits.iter().position(|it| *it == wait).unwrap();
    let Event::Stamp { order: ended } = waits[at - 1] else {
        panic!("{waits:?}");
    };
    assert!(!matches!(waits[at + 1], Event::Stamp { .. }), "{waits:?}");
    let stamps = common::stream(&trace, ThreadId(1));
    let stamps = stamps.iter().filter_map(|event| match event {
        Event::Stamp { order } => Some(*order),
        _ => None,
    });
    let stamps: Vec<u64> = stamps.collect();
    assert!(
        stamps.len() == 2 && stamps[0] < ended && ended < stamps[1],
        "{stamps:?}, {ended}"
    );
}

#[test]
fn a_wait_that_is_over_before_the_thread_ends_was_no_join() {
    let peer = ThreadId(1);
    let start = Event::Start {
        thread: peer,
        priority: 5,
    };
    let join = Event::Join { thread: peer };
    let recorded = [
        (0, start),
        (0, join),
        (1, alloc(10, 16)),
        (1, Event::End),
        (0, join),
        (0, Event::End),
    ];
    assert_eq!(mended(&recorded)[&0], [start, join, Event::End]);
}

#[test]
fn a_thread_that_comes_from_outside_is_started_where_the_others_stand() {
    let parked = Event::Park { timeout: 0 };
    let unpark = Event::Unpark {
        thread: ThreadId(0),
    };
    // Thread 0 parks, then a signal comes, whose thread ends the wait.
    let recorded = [
        (0, alloc(10, 16)),
        (0, parked),
        (1, unpark),
        (1, Event::End),
        (
            0,
            Event::Use {
                object: ObjectId(10),
            },
        ),
        (0, Event::End),
    ];
    let start = Event::Start {
        thread: ThreadId(1),
        priority: 5,
    };
    let death = Event::Death {
        object: ObjectId(10),
    };
    let streams = mended(&recorded);
    assert_eq!(
        streams[&0],
        [alloc(10, 16), start, parked, death, Event::End]
    );
    assert_eq!(streams[&1], [unpark, Event::End]);
}

#[test]
fn a_wait_that_an_interrupt_ended_ends_by_it() {
    let monitor = MonitorId(7);
    let (enter, exit) = (Event::Enter { monitor }, Event::Exit { monitor });
    let timeout = 0;
    let unpark = Event::Unpark {
        thread: ThreadId(0),
    };
    let start = Event::Start {
        thread: ThreadId(1),
        priority: 5,
    };
    let recorded = [
        (0, start),
        (0, enter),
        (0, Event::Wait { monitor, timeout }),
        (1, unpark),
        (0, exit),
        (0, Event::End),
    ];
    let park = Event::Park { timeout };
    let expected = [start, enter, exit, park, enter, exit, Event::End];
    assert_eq!(mended(&recorded)[&0], expected);
}
