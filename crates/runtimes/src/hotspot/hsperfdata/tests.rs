//! The parser against good, damaged and arbitrary files.

use super::*;
use proptest::prelude::*;

fn put(bytes: &mut Vec<u8>, little: bool, value: u32) {
    bytes.extend(if little {
        value.to_le_bytes()
    } else {
        value.to_be_bytes()
    });
}

fn file(little: bool, counters: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0, u8::from(little), 2, 0, 1];
    for word in [0, 0, 0, 0, 32, counters.len() as u32] {
        put(&mut bytes, little, word);
    }
    for (name, value) in counters {
        let text = match value {
            Value::Long(_) => 0,
            Value::Text(t) => t.len() + 1,
        };
        let at = (20 + name.len() + 1).next_multiple_of(8);
        let length = (at + text.max(8)).next_multiple_of(8);
        let start = bytes.len();
        put(&mut bytes, little, length as u32);
        put(&mut bytes, little, 20);
        put(&mut bytes, little, text as u32);
        bytes.extend([if text == 0 { b'J' } else { b'B' }, 0, 1, 1]);
        put(&mut bytes, little, at as u32);
        bytes.extend(name.bytes());
        bytes.resize(start + at, 0);
        match value {
            Value::Long(v) if little => bytes.extend(v.to_le_bytes()),
            Value::Long(v) => bytes.extend(v.to_be_bytes()),
            Value::Text(t) => bytes.extend(t.bytes()),
        }
        bytes.resize(start + length, 0);
    }
    bytes
}

const SAMPLE: &[(&str, Value<'static>)] = &[
    ("sun.gc.cause", Value::Text("No GC")),
    ("sun.gc.collector.0.invocations", Value::Long(42)),
    ("sun.gc.generation.0.capacity", Value::Long(-1)),
];

#[test]
fn both_byte_orders_are_read() {
    for little in [true, false] {
        let bytes = file(little, SAMPLE);
        let counters = Counters::parse(&bytes).unwrap();
        assert_eq!(counters.iter().collect::<Vec<_>>(), SAMPLE);
    }
}

#[test]
fn a_truncated_file_yields_what_is_whole() {
    let bytes = file(true, SAMPLE);
    for length in 32..bytes.len() {
        let counters = Counters::parse(&bytes[..length]).unwrap();
        assert!(
            counters
                .iter()
                .zip(SAMPLE)
                .all(|(got, want)| got.0.len() <= want.0.len())
        );
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let good = file(true, SAMPLE);
    for (at, value) in [(0, 0), (4, 7), (5, 1), (7, 0), (27, 0xff), (31, 0xff)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert!(Counters::parse(&bad).is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        if let Ok(counters) = Counters::parse(&bytes) {
            prop_assert!(counters.iter().count() <= MAX_ENTRIES);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..32)
    ) {
        let mut bytes = file(true, SAMPLE);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(counters) = Counters::parse(&bytes) {
            prop_assert!(counters.iter().count() <= MAX_ENTRIES);
        }
    }
}
