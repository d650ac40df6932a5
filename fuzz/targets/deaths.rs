//! Reads bytes as lines of a recording, in which deaths are found by Merlin and by groups, and as lines of
//! two recordings that are merged: whatever they say, it ends, and what is written is a trace with just the
//! objects and deaths that are told.

#![no_main]

use plimsoll_trace::merlin::add_deaths::Found;
use plimsoll_trace::merlin::{add_deaths, groups};
use plimsoll_trace::order::Filed;
use plimsoll_trace::text;
use plimsoll_trace::{Deaths, Event, Header, Trace, merge};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::Arc;

/// The separator of the lines of two traces.
const BETWEEN: &[u8] = b"\n---\n";

/// The trace of some lines.
fn typed(lines: &[u8], header: &Header) -> Option<Trace> {
    let mut lines = lines;
    let bytes = text::read(&mut lines, "typed", header, Vec::new()).ok()?;
    Some(opened(bytes))
}

fn opened(bytes: Vec<u8>) -> Trace {
    Trace::from_source(Arc::new(bytes), "written").expect("what was written is a trace")
}

fn events(trace: &Trace) -> Vec<Event> {
    let all = Filed::new(trace).map(|next| next.expect("what was written can be read").1);
    all.collect()
}

/// A file in memory without a name.
fn table() -> File {
    // SAFETY: the name ends with a zero; the descriptor is nobody else's.
    unsafe {
        let descriptor = libc::memfd_create(c"table".as_ptr(), libc::MFD_CLOEXEC);
        assert!(descriptor >= 0);
        File::from_raw_fd(descriptor)
    }
}

fn agrees((bytes, found): (Vec<u8>, Found)) {
    let events = events(&opened(bytes));
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count() as u64;
    assert_eq!(count(|event| matches!(event, Event::Alloc { .. })), found.objects);
    assert_eq!(count(|event| matches!(event, Event::Death { .. })), found.deaths);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let raw = Header { raw: true, ..Header::default() };
    let at_collections = Header { deaths: Deaths::AtCollections, ..Header::default() };
    let facts = BTreeMap::new();
    if let Some(trace) = typed(bytes, &raw)
        && let Ok(made) = add_deaths::write(&trace, &facts, table(), Vec::new(), "deaths")
    {
        agrees(made);
    }
    if let Some(trace) = typed(bytes, &at_collections)
        && let Ok(made) = groups::write(&trace, &facts, Vec::new(), "groups")
    {
        agrees(made);
    }
    let split = bytes.windows(BETWEEN.len()).position(|it| it == BETWEEN);
    let parts = split.map(|at| [&bytes[..at], &bytes[at + BETWEEN.len()..]]);
    let traces = parts.map(|parts| parts.map(|lines| typed(lines, &raw)));
    if let Some([Some(one), Some(other)]) = traces {
        let counts = [&one, &other].map(|trace| events(trace).len());
        if let Ok(merged) = merge::merge(&[one, other], Vec::new(), "merged") {
            assert_eq!(events(&opened(merged)).len(), counts[0] + counts[1]);
        }
    }
});
