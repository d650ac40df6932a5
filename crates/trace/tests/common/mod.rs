//! Traces in memory, and events of all kinds.

// Not every test needs all of it.
#![allow(dead_code)]

use plimsoll_trace::event::MAX_OBJECT;
use plimsoll_trace::{
    ClassId, Event, Header, MonitorId, ObjectId, SiteId, ThreadId, Trace, TraceError, Writer,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The events of each thread, in the order in which they were written.
pub(crate) type Script = Vec<(ThreadId, Event)>;

/// The bytes of a trace.
pub(crate) fn bytes_of(header: &Header, script: &[(ThreadId, Event)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "written", header).unwrap();
    for (thread, event) in script {
        writer.push(*thread, event).unwrap();
    }
    writer.finish().unwrap()
}

/// Opens the bytes of a trace.
pub(crate) fn open(bytes: Vec<u8>) -> Result<Trace, TraceError> {
    Trace::from_source(Arc::new(bytes), "bytes")
}

/// The events of a thread.
pub(crate) fn stream(trace: &Trace, thread: ThreadId) -> Vec<Event> {
    trace.stream(thread).unwrap().map(Result::unwrap).collect()
}

/// The events of a thread, until an error.
pub(crate) fn read(trace: &Trace, thread: ThreadId) -> (Vec<Event>, Option<TraceError>) {
    let mut events = Vec::new();
    for event in trace.stream(thread).unwrap() {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// An allocation of a plain object.
pub(crate) fn alloc(object: u64, size: u64) -> Event {
    Event::Alloc {
        object: ObjectId(object),
        size,
        class: None,
        site: None,
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..100u64, 0..1u64 << 40, any::<u64>()]
}

fn object() -> impl Strategy<Value = ObjectId> {
    number().prop_map(|it| ObjectId(it.max(1)))
}

fn reference() -> impl Strategy<Value = ObjectId> {
    number().prop_map(ObjectId)
}

fn monitor() -> impl Strategy<Value = MonitorId> {
    number().prop_map(MonitorId)
}

fn class() -> impl Strategy<Value = ClassId> {
    (1..=u32::MAX).prop_map(|it| ClassId(NonZeroU32::new(it).unwrap()))
}

fn site() -> impl Strategy<Value = SiteId> {
    (1..99u32).prop_map(|it| SiteId(NonZeroU32::new(it).unwrap()))
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..2000u64,
        (1..4000u64).prop_map(|it| it * 8),
        1 << 30..=MAX_OBJECT
    ]
}

/// Any event but the end of a thread. Stamps are made to rise by [`script`], and times are too short to run
/// a clock over.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let threads = || (0..20u32).prop_map(ThreadId);
    prop_oneof![
        4 => (0..1u64 << 50).prop_map(|time| Event::Compute { time }),
        1 => number().prop_map(|time| Event::Sleep { time }),
        5 => (object(), size(), proptest::option::of(class()), proptest::option::of(site()))
            .prop_map(|(object, size, class, site)| Event::Alloc { object, size, class, site }),
        4 => object().prop_map(|object| Event::Death { object }),
        1 => (threads(), 1..=10u8).prop_map(|(thread, priority)| Event::Start { thread, priority }),
        1 => threads().prop_map(|thread| Event::Join { thread }),
        1 => threads().prop_map(|thread| Event::Unpark { thread }),
        2 => monitor().prop_map(|monitor| Event::Enter { monitor }),
        2 => monitor().prop_map(|monitor| Event::Exit { monitor }),
        1 => (monitor(), number()).prop_map(|(monitor, timeout)| Event::Wait { monitor, timeout }),
        1 => (monitor(), any::<bool>()).prop_map(|(monitor, all)| Event::Notify { monitor, all }),
        1 => number().prop_map(|timeout| Event::Park { timeout }),
        1 => (1..1000u64).prop_map(|order| Event::Stamp { order }),
        1 => (object(), any::<u32>(), reference())
            .prop_map(|(holder, slot, target)| Event::Store { holder, slot, target }),
        1 => (class(), any::<u32>(), reference())
            .prop_map(|(class, slot, target)| Event::StoreStatic { class, slot, target }),
        1 => object().prop_map(|object| Event::Use { object }),
    ]
}

/// Events of a few threads, each of which ends.
pub(crate) fn script(most: usize) -> impl Strategy<Value = Script> {
    let threads = (0..4u32).prop_map(|it| ThreadId(it * 77));
    proptest::collection::vec((threads, event()), 0..most).prop_map(|mut script| {
        let mut last = 0;
        for (_, event) in &mut script {
            if let Event::Stamp { order } = event {
                last += *order;
                *order = last;
            }
        }
        let mut threads: Vec<ThreadId> = script.iter().map(|(thread, _)| *thread).collect();
        threads.sort();
        threads.dedup();
        script.extend(threads.into_iter().map(|thread| (thread, Event::End)));
        script
    })
}
