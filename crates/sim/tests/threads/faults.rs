//! Bad traces and settings: each ends in an error that names the place.

use crate::programs::allocation;
use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Outcome, Program, ReadError, Settings, SimError};
use plimsoll_sim::threads::{Stream, Streams, simulate};
use plimsoll_trace::{Event, MonitorId, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, Nanos};

const MONITOR: MonitorId = MonitorId(7);
const ENTER: Event = Event::Enter { monitor: MONITOR };
const EXIT: Event = Event::Exit { monitor: MONITOR };
const OTHER: Event = Event::Enter {
    monitor: MonitorId(8),
};

fn death(object: u64) -> Event {
    Event::Death {
        object: ObjectId(object),
    }
}

fn run(collector: Algorithm, heap: u64, streams: &[&[Event]]) -> Result<Outcome, SimError> {
    let settings = Settings::new(Rule::RoundRobin, collector, Bytes(heap));
    let streams = streams.iter().map(|stream| stream.to_vec()).collect();
    simulate(&mut Streams::new(streams), &settings)
}

fn check(cases: &[(&[&[Event]], &str)]) {
    for (streams, needle) in cases {
        let error = run(Algorithm::MarkCompact, 1000, streams).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(needle), "{streams:?} => {error}");
    }
}

#[test]
fn what_is_wrong_with_monitors_and_objects_is_said_with_its_place() {
    let monitor = MONITOR;
    let wait = Event::Wait {
        monitor,
        timeout: 0,
    };
    let notify = Event::Notify { monitor, all: true };
    let object = ObjectId(1);
    check(&[
        (
            &[&[ENTER, Event::End]],
            "thread 0, event 1: the thread ends and still holds monitor 7",
        ),
        (
            &[&[EXIT, Event::End]],
            "thread 0, event 0: monitor 7 is exited, which the thread does not hold",
        ),
        (
            &[&[wait, Event::End]],
            "event 0: monitor 7 is waited in, which",
        ),
        (
            &[&[ENTER, EXIT, notify, Event::End]],
            "event 2: monitor 7 is notified, which",
        ),
        (&[&[Event::Use { object }]], "the trace is raw"),
        (
            &[&[allocation(1, 8), allocation(1, 8)]],
            "event 1: object 1 is allocated, which lives already",
        ),
        (
            &[&[allocation(1, 8), death(1), death(1), death(2)]],
            "thread 0, event 2: object 1 dies, and dies more often than it is allocated (2 objects do)",
        ),
        (
            &[&[death(3), ENTER, EXIT, allocation(3, 8), Event::End]],
            "thread 0, event 3: object 3 is allocated, and the thread's event 0 says that it died",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_threads_is_said_with_its_place() {
    let (absent, itself) = (ThreadId(9), ThreadId(0));
    let start = |thread| Event::Start {
        thread,
        priority: 5,
    };
    let starts = start(ThreadId(1));
    let compute = Event::Compute { time: 2_000_000 };
    check(&[
        (&[], "the trace has no thread"),
        (
            &[&[starts, starts], &[Event::End]],
            "thread 0, event 1: thread 1 is started, which",
        ),
        (
            &[&[Event::Join { thread: absent }]],
            "it names thread 9, and the trace has none",
        ),
        (&[&[Event::Unpark { thread: absent }]], "it names thread 9"),
        (&[&[start(absent)]], "it names thread 9"),
        (
            &[&[Event::Join { thread: itself }]],
            "waits for the end of thread 0",
        ),
        (
            &[&[compute, Event::Compute { time: u64::MAX }]],
            "thread 0, event 1: the thread computes for 18446744073709551615 ns at once",
        ),
        (
            &[&[ENTER, compute, OTHER], &[OTHER, compute, ENTER]],
            "2 threads wait for each other for ever under this scheduler:\n  thread 0, event 2 waits for \
             monitor 8, which thread 1 holds\n  thread 1, event 2 waits for monitor 7, which thread 0 holds",
        ),
    ]);
}

#[test]
fn a_thread_that_only_starts_itself_never_starts() {
    let start = Event::Start {
        thread: ThreadId(1),
        priority: 5,
    };
    let error = run(
        Algorithm::MarkCompact,
        9,
        &[&[Event::End], &[start, Event::End]],
    )
    .unwrap_err();
    assert!(
        matches!(error, SimError::NeverStarted(ThreadId(1))),
        "{error}"
    );
}

#[test]
fn a_heap_below_the_live_size_is_too_small() {
    let live = [allocation(1, 600), allocation(2, 400), death(1), Event::End];
    for (collector, enough) in [
        (Algorithm::MarkCompact, 1000),
        (Algorithm::SemiSpace, 2000),
        (Algorithm::GenCopy, 1800),
        (Algorithm::GenMc, 1200),
        (Algorithm::GenMs, 1600),
        (Algorithm::G1, 1056),
    ] {
        run(collector, enough, &[&live]).unwrap();
        let error = run(collector, 900, &[&live]).unwrap_err().to_string();
        assert!(
            error.contains("the heap is too small: an object of"),
            "{error}"
        );
        assert!(
            error.contains(collector.loses().unwrap_or_default()),
            "{error}"
        );
    }
}

#[test]
fn objects_of_any_size_are_allocated_or_refused() {
    let gigabyte = 1 << 30;
    for collector in Algorithm::ALL {
        let program = [
            allocation(1, gigabyte),
            death(1),
            allocation(2, gigabyte),
            Event::End,
        ];
        let outcome = run(collector, 4 * gigabyte, &[&program]).unwrap();
        assert_eq!(
            outcome.allocated,
            outcome.freed + outcome.garbage + outcome.live
        );
        for heap in [0, 1, u64::MAX] {
            let empty = [allocation(1, 0), allocation(2, 0), death(1), Event::End];
            assert_eq!(run(collector, heap, &[&empty]).unwrap().objects, 2);
            let result = run(
                collector,
                heap,
                &[&[allocation(1, u64::MAX), allocation(2, u64::MAX)]],
            );
            assert!(result.is_err());
        }
    }
}

#[test]
fn a_recording_that_stops_is_simulated_as_far_as_it_goes() {
    let compute = Event::Compute { time: 2_000_000 };
    let cut: &[Event] = &[ENTER, ENTER, compute];
    let outcome = run(
        Algorithm::GenMc,
        90,
        &[cut, &[ENTER, compute, EXIT, Event::End]],
    )
    .unwrap();
    assert_eq!(
        (outcome.cut, outcome.threads, outcome.contentions),
        (1, 2, 1)
    );
    let waits: &[Event] = &[
        ENTER,
        Event::Wait {
            monitor: MONITOR,
            timeout: 0,
        },
    ];
    let outcome = run(
        Algorithm::GenMc,
        90,
        &[waits, &[Event::Park { timeout: 0 }, Event::End]],
    )
    .unwrap();
    assert_eq!((outcome.cut, outcome.helped), (1, 2));
}

/// A program that is told to end: a thread of the virtual machine's own holds the monitor and waits for the
/// end of a thread. Here it comes before that one is started, for which the main thread needs the monitor.
#[test]
fn a_thread_that_has_not_started_is_not_waited_for_for_ever() {
    let (late, priority) = (ThreadId(2), 5);
    let compute = Event::Compute { time: 5_000_000 };
    let start = Event::Start {
        thread: late,
        priority,
    };
    let main: &[Event] = &[compute, ENTER, start, EXIT, Event::End];
    let ends: &[Event] = &[ENTER, Event::Join { thread: late }, EXIT, Event::End];
    let outcome = run(Algorithm::GenMc, 90, &[main, ends, &[Event::End]]).unwrap();
    assert_eq!((outcome.helped, outcome.threads), (1, 3));
}

#[test]
fn what_a_cut_trace_has_lost_is_counted_and_no_fault() {
    let absent = ThreadId(9);
    let start = Event::Start {
        thread: absent,
        priority: 5,
    };
    let (join, unpark) = (
        Event::Join { thread: absent },
        Event::Unpark { thread: absent },
    );
    let stream = vec![
        allocation(1, 8),
        start,
        death(1),
        death(2),
        unpark,
        join,
        death(3),
    ];
    let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(1000));
    let mut program = Streams::new(vec![stream]);
    let error = simulate(&mut program.clone(), &settings).unwrap_err();
    assert!(error.to_string().contains("it names thread 9"), "{error}");
    program.is_cut = true;
    let outcome = simulate(&mut program, &settings).unwrap();
    assert_eq!((outcome.unborn, outcome.cut, outcome.objects), (2, 1, 1));
}

/// A program of one thread that tells of deaths, and of nothing else.
struct Deaths(u64);

impl Program for Deaths {
    fn streams(&self) -> Vec<Stream> {
        vec![Stream {
            thread: ThreadId(0),
            is_started: false,
        }]
    }

    fn next(&mut self, _stream: usize) -> Result<Option<Event>, ReadError> {
        self.0 += 1;
        Ok(Some(death(self.0)))
    }
}

#[test]
fn deaths_of_what_nobody_allocates_have_a_bound() {
    let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(1000));
    let error = simulate(&mut Deaths(0), &settings).unwrap_err();
    let needle = "thread 0, event 4194304: object 4194305 dies, and so have 4194304 others";
    assert!(error.to_string().contains(needle), "{error}");
}

#[test]
fn a_thread_that_computes_alone_for_long_is_simulated_at_once() {
    let compute = Event::Compute {
        time: 1_000_000_000_000_000,
    };
    let stream = vec![compute, allocation(1, 8), Event::End];
    for (rule, each) in [
        (Rule::RoundRobin, 1000),
        (Rule::Larf, 1000),
        (Rule::Mqrr, 700),
    ] {
        let settings = Settings {
            quanta: Quanta {
                time: Nanos(1000),
                bytes: Bytes(100),
                most: Nanos(700),
            },
            ..Settings::new(rule, Algorithm::MarkCompact, Bytes(1000))
        };
        let outcome = simulate(&mut Streams::new(vec![stream.clone()]), &settings).unwrap();
        assert_eq!(outcome.computed, 1_000_000_000_000_000);
        assert_eq!(outcome.elapsed, outcome.computed);
        // It makes room before what it does at the end of a quantum.
        assert_eq!(outcome.dispatches, outcome.computed / each + 1);
        let both = vec![stream.clone(), vec![compute, Event::End]];
        let error = simulate(&mut Streams::new(both), &settings).unwrap_err();
        let needle = format!("more than a hundred million quanta of {each} ns");
        assert!(error.to_string().contains(&needle), "{error}");
    }
}

/// A queue of a program: who takes waits until there is something, and tells all others.
#[test]
fn a_wait_is_not_passed_by_notifications_before_it_or_of_its_own_thread() {
    let monitor = MONITOR;
    let wait = Event::Wait {
        monitor,
        timeout: 0,
    };
    let notify = Event::Notify { monitor, all: true };
    let stamp = |order| Event::Stamp { order };
    let compute = |time| Event::Compute { time };
    // Recorded: it is notified at 20, 40 and 60, and tells the others itself in between.
    let takes = [10, 30, 50].into_iter().flat_map(|order| {
        let (begin, end) = (stamp(order), stamp(order + 15));
        [begin, ENTER, end, wait, notify, EXIT]
    });
    let puts = [20, 40, 60]
        .into_iter()
        .flat_map(|order| [compute(5_000_000), stamp(order), ENTER, notify, EXIT]);
    for stamped in [true, false] {
        let stream = |events: Vec<Event>| {
            let kept = |event: &Event| stamped || event.name() != "stamp";
            let events = events.into_iter().filter(kept);
            events.chain([Event::End]).collect::<Vec<_>>()
        };
        let takes = stream(takes.clone().collect());
        let puts = stream(puts.clone().collect());
        let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(1000));
        let run = |streams| simulate(&mut Streams::new(streams), &settings).unwrap();
        // As recorded: each wait blocks.
        let outcome = run(vec![takes.clone(), puts.clone()]);
        assert_eq!(
            (outcome.passed, outcome.helped),
            (0, 0),
            "stamps: {stamped}"
        );
        // All was put before anything is taken.
        let late = [&[compute(100_000_000)][..], &takes].concat();
        let outcome = run(vec![late, puts]);
        let expected = if stamped { (3, 0) } else { (1, 2) };
        assert_eq!((outcome.passed, outcome.helped), expected);
    }
}

/// A wait with a timeout that nobody ended, and a notification long after.
#[test]
fn a_wait_that_timed_out_is_not_passed_by_a_notification_after_its_end() {
    let monitor = MONITOR;
    let timeout = 1_000_000;
    let wait = Event::Wait { monitor, timeout };
    let stamp = |order| Event::Stamp { order };
    let compute = |time| Event::Compute { time };
    for all in [true, false] {
        let notify = Event::Notify { monitor, all };
        let notifies = [
            stamp(20),
            ENTER,
            EXIT,
            stamp(90),
            ENTER,
            notify,
            EXIT,
            Event::End,
        ];
        // A recorder tells the end of a wait before it or behind it; if nobody else has done anything, there
        // is no stamp.
        let waits: [(&[Event], u64); 6] = [
            (&[stamp(30), wait], 0),
            (&[wait, stamp(30)], 0),
            (&[stamp(15), wait, compute(5), stamp(30)], 0),
            (&[wait], 0),
            (&[stamp(95), wait], 1),
            (&[wait, compute(5), stamp(95)], 1),
        ];
        for (waits, passed) in waits {
            // It comes when the other is at its end.
            let begin = [compute(100_000_000), stamp(10), ENTER];
            let stream = [&begin[..], waits, &[EXIT, Event::End]].concat();
            let settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, Bytes(1000));
            let mut program = Streams::new(vec![stream, notifies.to_vec()]);
            let outcome = simulate(&mut program, &settings).unwrap();
            assert_eq!(
                (outcome.passed, outcome.helped),
                (passed, 0),
                "{waits:?}, all: {all}"
            );
            // Otherwise it waits as long as it was recorded to.
            let waited = outcome.elapsed - outcome.execution;
            assert_eq!(waited, (1 - passed) * timeout, "{waits:?}");
        }
    }
}
