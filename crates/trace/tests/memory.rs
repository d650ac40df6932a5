//! The memory of whoever writes, opens, merges or checks a trace does not grow with its events. An open trace
//! keeps eight bytes for each block.

use plimsoll_testbed::counting::{Counting, peak_of};
use plimsoll_trace::check::check;
use plimsoll_trace::merge::merge;
use plimsoll_trace::synth::{self, Options, table};
use plimsoll_trace::{Event, Header, ThreadId, Trace, Writer};
use std::io::sink;
use std::sync::Arc;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes of an open trace for each block: its place, in a list that has just doubled.
const BLOCK: usize = 8 + 16;

/// The most bytes of a block of the index, packed and unpacked.
const INDEX: isize = 2 * (32 << 10);

/// Each thread of both has several blocks. About 26,000 objects live at once: tables double at other sizes,
/// 20,480 and 32,768.
fn traces() -> [Trace; 2] {
    let program = table::find("lusearch").unwrap();
    [40.0, 4.0].map(|shorten| {
        let options = Options {
            scale: 1.25,
            shorten,
            ..Options::default()
        };
        let bytes = synth::write(program, &options, Vec::new(), "test").unwrap();
        Trace::from_source(Arc::new(bytes), "test").unwrap()
    })
}

fn events(trace: &Trace) -> u64 {
    let totals = trace.streams().values().filter_map(|it| it.totals);
    totals.map(|it| it.events).sum()
}

/// The second of two traces may need more memory, bytes: a tenth, and the memory of its blocks.
fn holds(what: &str, few: isize, many: isize, trace: &Trace) {
    let blocks = trace.threads_by_block().len() * BLOCK;
    let most = few + few / 10 + blocks as isize;
    assert!(
        many <= most,
        "{what}: {few} and {many} bytes, {blocks} of them for blocks"
    );
}

#[test]
fn ten_times_the_events_need_no_more_memory() {
    let [short, long] = &traces();
    assert!(events(long) > 9 * events(short) && events(short) > 500_000);
    let checked = [short, long].map(|trace| {
        let (peak, report) = peak_of(|| check(trace).unwrap());
        assert!(report.faults.is_empty());
        peak
    });
    holds("check", checked[0], checked[1], long);
    let merged = [short, long].map(|trace| {
        let one = std::slice::from_ref(trace);
        peak_of(|| merge(one, sink(), "merged").unwrap()).0
    });
    holds("merge", merged[0], merged[1], long);
}

#[test]
fn an_open_trace_has_a_number_for_each_block() {
    let opened = [100.0, 1.0].map(|shorten| {
        let program = table::find("lusearch").unwrap();
        let options = Options {
            scale: 10.0,
            shorten,
            ..Options::default()
        };
        let bytes = Arc::new(synth::write(program, &options, Vec::new(), "test").unwrap());
        peak_of(|| Trace::from_source(bytes, "test").unwrap())
    });
    let [(few, short), (many, long)] = &opened;
    assert!(
        events(long) > 10 * events(short),
        "{} and {}",
        events(short),
        events(long)
    );
    assert!(long.threads_by_block().len() > 200);
    // Fuller blocks of the index, packed and unpacked, are there while it is read.
    holds("open", *few + INDEX, *many, long);
}

#[test]
fn a_writer_has_its_threads_and_no_more() {
    let written = [100_000, 1_000_000u64].map(|events| {
        let write = || {
            let mut writer = Writer::new(sink(), "test", &Header::default()).unwrap();
            for number in 0..events {
                let thread = ThreadId((number / 1000 % 8) as u32);
                let time = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                writer.push(thread, &Event::Compute { time }).unwrap();
            }
            for thread in (0..8).map(ThreadId) {
                writer.push(thread, &Event::End).unwrap();
            }
            writer.finish().unwrap();
        };
        peak_of(write).0
    });
    assert!(
        written[1] <= written[0] + written[0] / 10,
        "{written:?} bytes"
    );
}
