//! A program with much live data: a table of records. Some of them are replaced, and many are read.

use super::{Numbers, Work, on_threads};
use crate::object::Shape;
use crate::thread::Thread;

/// A record: a reference to the record that it replaced last (none), and 30 words: 256 bytes.
const RECORD: Shape = Shape {
    slots: 1,
    words: 30,
};
/// Records of a part of the table. A part is a large object.
const PART: u32 = 4096;
/// Records read for each that is replaced.
const READS: u64 = 4;
/// Bytes allocated beside each record that is replaced: what a request leaves behind.
const BESIDE: Shape = Shape {
    slots: 2,
    words: 61,
};

/// Keeps `live` bytes of records in all threads together, and replaces `operations` of them in all.
pub(crate) fn live(threads: u32, live: u64, operations: u64) -> Work {
    let each = live / u64::from(threads.max(1));
    let operations = operations / u64::from(threads.max(1));
    on_threads(threads, |thread, index| {
        run(thread, index, each, operations)
    })
}

fn run(thread: &mut Thread, index: u32, live: u64, operations: u64) -> Option<u64> {
    let records = live / RECORD.bytes() as u64;
    let parts = u32::try_from(records.div_ceil(u64::from(PART)))
        .ok()?
        .max(1);
    let table = thread.allocate(Shape {
        slots: parts,
        words: 0,
    })?;
    let table = thread.push(table);
    for part in 0..parts {
        let made = thread.allocate(Shape {
            slots: PART,
            words: 0,
        })?;
        thread.write(thread.root(table), part, Some(made));
        for place in 0..PART {
            put(thread, table, part, place)?;
        }
    }
    let mut numbers = Numbers(u64::from(index) * 7919 + 12345);
    let mut draw = || {
        let drawn = numbers.below(u64::from(parts) * u64::from(PART));
        (
            (drawn / u64::from(PART)) as u32,
            (drawn % u64::from(PART)) as u32,
        )
    };
    let mut checked = 0;
    for _ in 0..operations {
        let (part, place) = draw();
        put(thread, table, part, place)?;
        thread.allocate(BESIDE)?;
        for _ in 0..READS {
            let (part, place) = draw();
            let records = thread.read(thread.root(table), part)?;
            checked += u64::from(Shape::of(thread.read(records, place)?).words);
        }
    }
    thread.forget(0);
    Some(checked)
}

/// Puts a new record into a place of the table.
fn put(thread: &mut Thread, table: usize, part: u32, place: u32) -> Option<()> {
    let record = thread.allocate(RECORD)?;
    let records = thread.read(thread.root(table), part)?;
    thread.write(records, place, Some(record));
    Some(())
}
