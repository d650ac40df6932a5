//! Reads bytes as a trace, as its lines, and as what a trace says: nothing makes a reader panic, loop, or
//! take more memory than the bytes can fill, and what is read as lines is written and read again as the
//! same.

#![no_main]

use plimsoll_trace::check::check;
use plimsoll_trace::order::{Filed, Recorded};
use plimsoll_trace::text::{self, Form};
use plimsoll_trace::{Event, Header, ObjectId, ThreadId, Trace, Writer};
use std::sync::Arc;

/// The most events that are read of one input: a block of a few bytes may have many.
const MOST: usize = 100_000;

/// Reads all that there is, in each way.
fn read(bytes: Vec<u8>) {
    let Ok(trace) = Trace::from_source(Arc::new(bytes), "fuzzed") else {
        return;
    };
    let _ = trace.names();
    let filed = Filed::new(&trace).take(MOST).filter(Result::is_ok).count();
    if filed < MOST {
        let _ = Recorded::new(&trace).map(Iterator::count);
        let _ = check(&trace).map(|report| report.faults.iter().map(ToString::to_string).count());
        let _ = text::write(&trace, Form::Text, &mut Vec::new(), "out");
    }
}

/// Makes blocks whose checksums are right of the input, so that what is behind the checksums is reached:
/// the bytes are the content of a block.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "sealed", &Header::default()).expect("memory is written");
    let event = Event::Death { object: ObjectId(1) };
    writer.push(ThreadId(1), &event).expect("it may be there");
    let whole = writer.finish().expect("memory is written");
    let at = whole.windows(4).position(|it| it == b"PLTB").expect("there is a block");
    let mut changed = whole[..at].to_vec();
    let mut head = whole[at..at + 72].to_vec();
    let (count, content) = bytes.split_first().map_or((0, bytes), |(count, rest)| (*count, rest));
    head[5] = 0;
    head[12..16].copy_from_slice(&u32::from(count).to_le_bytes());
    let length = (content.len() as u32).to_le_bytes();
    head[16..20].copy_from_slice(&length);
    head[20..24].copy_from_slice(&length);
    head[64..68].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
    let sum = crc32fast::hash(&head[..68]);
    head[68..].copy_from_slice(&sum.to_le_bytes());
    changed.extend_from_slice(&head);
    changed.extend_from_slice(content);
    changed
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    read(sealed(bytes));
    let header = Header { raw: true, ..Header::default() };
    let Ok(made) = text::read(&mut &*bytes, "typed", &header, Vec::new()) else {
        return;
    };
    let trace = Trace::from_source(Arc::new(made), "made").expect("what was written is a trace");
    let mut lines = Vec::new();
    text::write(&trace, Form::Text, &mut lines, "lines").expect("memory is written");
    let again = text::read(&mut lines.as_slice(), "lines", &header, Vec::new());
    let again = again.expect("it reads its own lines");
    let mut twice = Vec::new();
    let again = Trace::from_source(Arc::new(again), "again").expect("what was written is a trace");
    text::write(&again, Form::Text, &mut twice, "lines").expect("memory is written");
    assert_eq!(lines, twice);
});
