//! A written trace is read again, and damage is reported with its place.

mod common;

use common::{alloc, bytes_of, event, open, read, script, stream};
use plimsoll_trace::event::MAX_OBJECT;
use plimsoll_trace::{
    BlockFault, Ending, Event, EventFault, Header, MonitorId, Named, ObjectId, ThreadId,
    TraceError, Writer,
};
use proptest::prelude::*;

const MAIN: ThreadId = ThreadId(0);

fn raw() -> Header {
    Header {
        raw: true,
        identity: [9; 16],
        ..Header::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn streams_come_back(script in script(600)) {
        let trace = open(bytes_of(&raw(), &script)).unwrap();
        prop_assert_eq!(trace.ending(), &Ending::Whole);
        for (&thread, info) in trace.streams() {
            let wrote = script.iter().filter(|(on, _)| *on == thread).map(|(_, event)| *event);
            let wrote: Vec<Event> = wrote.collect();
            let mut reads = trace.stream(thread).unwrap();
            let found: Vec<Event> = reads.by_ref().map(Result::unwrap).collect();
            prop_assert_eq!(&found, &wrote);
            let totals = info.totals.unwrap();
            let at = reads.position();
            prop_assert_eq!((totals.events, totals.objects), (at.event, at.objects));
            prop_assert_eq!((totals.allocated, totals.time), (at.allocated, at.time));
            prop_assert!(totals.ended);
        }
    }

    /// Cut anywhere, a trace gives events that were written, or says that it is damaged.
    #[test]
    fn cut_traces_are_read_up_to_their_last_block(script in script(300), part in 0.0..1.0f64) {
        let mut bytes = bytes_of(&raw(), &script);
        bytes.truncate((bytes.len() as f64 * part) as usize);
        let Ok(trace) = open(bytes) else { return Ok(()) };
        prop_assert_ne!(trace.ending(), &Ending::Whole);
        for &thread in trace.streams().keys() {
            let (found, error) = read(&trace, thread);
            prop_assert!(error.is_none(), "{error:?}");
            let wrote = script.iter().filter(|(on, _)| *on == thread).map(|(_, event)| *event);
            prop_assert!(wrote.take(found.len()).eq(found.iter().copied()));
        }
    }

    /// One wrong byte anywhere never makes other events of it, except in what no checksum covers: nothing.
    #[test]
    fn damage_is_noticed(script in script(300), part in 0.0..1.0f64, flip in 1..=255u8) {
        let mut bytes = bytes_of(&raw(), &script);
        let at = (bytes.len() as f64 * part) as usize;
        bytes[at] ^= flip;
        let Ok(trace) = open(bytes) else { return Ok(()) };
        for &thread in trace.streams().keys() {
            let (found, _) = read(&trace, thread);
            let wrote = script.iter().filter(|(on, _)| *on == thread).map(|(_, event)| *event);
            prop_assert!(wrote.take(found.len()).eq(found.iter().copied()));
        }
    }

    #[test]
    fn a_refused_event_changes_nothing(first in event(), bad in 0..6usize) {
        let first = match first {
            Event::Stamp { .. } => Event::Stamp { order: 5 },
            other => other,
        };
        let bad = [
            alloc(7, 0),
            alloc(7, MAX_OBJECT + 1),
            alloc(0, 8),
            Event::Start { thread: MAIN, priority: 11 },
            Event::Stamp { order: 0 },
            Event::Death { object: ObjectId(0) },
        ][bad];
        let mut writer = Writer::new(Vec::new(), "t", &raw()).unwrap();
        writer.push(MAIN, &first).unwrap();
        let before = writer.position(MAIN);
        prop_assert!(writer.push(MAIN, &bad).is_err());
        prop_assert_eq!(writer.position(MAIN), before);
        writer.push(MAIN, &Event::End).unwrap();
        prop_assert!(writer.push(MAIN, &first).is_err());
        let trace = open(writer.finish().unwrap()).unwrap();
        prop_assert_eq!(stream(&trace, MAIN), vec![first, Event::End]);
    }
}

/// A long stream of one thread, in several blocks.
fn long() -> Vec<(ThreadId, Event)> {
    let mut script = Vec::new();
    for object in 1..60_000u64 {
        script.push((MAIN, alloc(object * 3, 16 + object % 700)));
        script.push((
            MAIN,
            Event::Compute {
                time: object * 97 % 1000,
            },
        ));
    }
    script
}

/// The blocks of a trace: where each begins, and its end.
fn blocks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(b"PLTB"))
        .collect();
    let stored =
        |at: usize| u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap()) as usize;
    starts
        .iter()
        .map(|at| *at..*at + 72 + stored(*at))
        .collect()
}

#[test]
fn blocks_out_of_order_missing_or_doubled_are_told() {
    let bytes = bytes_of(&Header::default(), &long());
    let blocks = blocks(&bytes);
    assert!(blocks.len() >= 4, "several blocks: {}", blocks.len());
    let head = &bytes[..blocks[0].start];
    // Without the index, so that the blocks are looked for.
    for order in [vec![1, 0], vec![0, 2], vec![0, 0], vec![1]] {
        let mut changed = head.to_vec();
        for index in &order {
            changed.extend_from_slice(&bytes[blocks[*index].clone()]);
        }
        let trace = open(changed).unwrap();
        let (found, error) = read(&trace, MAIN);
        let error = error.unwrap();
        let said = error.to_string();
        assert!(
            matches!(
                error,
                TraceError::Block {
                    why: BlockFault::Order { .. },
                    ..
                }
            ),
            "{said}"
        );
        assert!(
            said.contains("block at byte ")
                && said.contains(&format!("event {} comes next", found.len()))
        );
    }
}

#[test]
fn a_cut_is_told_with_its_byte() {
    let bytes = bytes_of(&Header::default(), &long());
    let blocks = blocks(&bytes);
    let trace = open(bytes[..blocks[1].end - 1].to_vec()).unwrap();
    let offset = blocks[1].start as u64;
    assert_eq!(
        trace.ending(),
        &Ending::Cut {
            offset,
            why: BlockFault::Cut
        }
    );
    let (found, error) = read(&trace, MAIN);
    assert!(error.is_none() && found.len() > 1000);
    let mut wrong = bytes.clone();
    wrong[blocks[1].start + 100] ^= 1;
    let (first, error) = read(&open(wrong).unwrap(), MAIN);
    assert_eq!(first, found);
    let said = error.unwrap().to_string();
    assert!(
        said.contains(&format!("block at byte {offset}")) && said.contains("content"),
        "{said}"
    );
}

#[test]
fn impossible_sizes_are_refused_with_their_place() {
    let mut writer = Writer::new(Vec::new(), "made", &Header::default()).unwrap();
    writer
        .push(ThreadId(4), &Event::Compute { time: 9 })
        .unwrap();
    for (size, why) in [
        (0, EventFault::EmptyObject),
        (MAX_OBJECT + 1, EventFault::HugeObject(MAX_OBJECT + 1)),
    ] {
        let error = writer.push(ThreadId(4), &alloc(1, size)).unwrap_err();
        assert!(matches!(&error, TraceError::Event { why: found, .. } if *found == why));
        assert!(
            error.to_string().starts_with("made: thread 4, event 1"),
            "{error}"
        );
    }
    // The largest array of Java is in order.
    writer.push(ThreadId(4), &alloc(1, MAX_OBJECT)).unwrap();
    let trace = open(writer.finish().unwrap()).unwrap();
    assert_eq!(stream(&trace, ThreadId(4))[1], alloc(1, MAX_OBJECT));
}

#[test]
fn stores_are_for_raw_traces() {
    let mut writer = Writer::new(Vec::new(), "t", &Header::default()).unwrap();
    let used = Event::Use {
        object: ObjectId(1),
    };
    let said = writer.push(MAIN, &used).unwrap_err().to_string();
    assert!(said.contains("raw"), "{said}");
}

#[test]
fn names_come_back_and_long_ones_are_cut() {
    let mut writer = Writer::new(Vec::new(), "t", &Header::default()).unwrap();
    let long = "ä".repeat(4000);
    writer.name(Named::Class, 5, "java.lang.String").unwrap();
    writer.name(Named::Thread, 0, &long).unwrap();
    writer
        .push(
            MAIN,
            &Event::Enter {
                monitor: MonitorId(3),
            },
        )
        .unwrap();
    let trace = open(writer.finish().unwrap()).unwrap();
    let names = trace.names().unwrap();
    assert_eq!(names[&(Named::Class, 5)], "java.lang.String");
    assert_eq!(names[&(Named::Thread, 0)], "ä".repeat(2048));
    assert_eq!(stream(&trace, MAIN).len(), 1);
}

#[test]
fn an_empty_trace_is_whole() {
    let trace = open(bytes_of(&Header::default(), &[])).unwrap();
    assert_eq!(trace.ending(), &Ending::Whole);
    assert!(trace.streams().is_empty());
    assert!(
        trace
            .stream(MAIN)
            .unwrap_err()
            .to_string()
            .contains("no thread 0")
    );
}

/// An index of a few bytes that tells of more blocks than the file has room for is not believed.
#[test]
fn an_index_that_lies_is_not_believed() {
    let bytes = bytes_of(&Header::default(), &long());
    let all = blocks(&bytes);
    let index = all.last().unwrap().clone();
    // A thousand blocks of thread 0 that all begin at the same byte.
    let mut content = vec![1, 0, all[0].start as u8];
    content.extend([1, 0, 0].repeat(1000));
    let mut head = bytes[index.start..index.start + 72].to_vec();
    head[5] = 0;
    for (at, value) in [
        (16, content.len() as u32),
        (20, content.len() as u32),
        (64, crc32fast::hash(&content)),
    ] {
        head[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let sum = crc32fast::hash(&head[..68]).to_le_bytes();
    head[68..].copy_from_slice(&sum);
    let end = &bytes[bytes.len() - 20..];
    let changed = [&bytes[..index.start], &head, &content, end].concat();
    let trace = open(changed).unwrap();
    assert!(matches!(
        trace.ending(),
        Ending::Cut {
            why: BlockFault::Number,
            ..
        }
    ));
    // The blocks are found without it.
    assert_eq!(stream(&trace, MAIN).len(), long().len());
}
