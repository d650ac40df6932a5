//! The parser reads good, damaged and arbitrary files.

use super::*;
use plimsoll_testbed::hsperfdata::{self, Counter};
use proptest::prelude::*;

fn file(little: bool, counters: &[(&str, Value<'_>)]) -> Vec<u8> {
    let value = |value| match value {
        Value::Long(number) => Counter::Long(number),
        Value::Text(text) => Counter::Text(text),
    };
    let counters = counters
        .iter()
        .map(|(name, counter)| (*name, value(*counter)));
    hsperfdata::file(little, &counters.collect::<Vec<_>>())
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
fn only_a_plain_file_of_the_users_own_is_opened() {
    use std::ffi::CString;
    use std::os::unix::fs::{chown, symlink};
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("hsperfdata_x");
    std::fs::create_dir(&folder).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let opened = |name: &str, uid| {
        let directory = std::fs::File::open(tmp.path()).unwrap();
        let folder = CString::new("hsperfdata_x").unwrap();
        matches!(open_beneath(&directory, &folder, name, uid), Ok(Some(_)))
    };
    std::fs::write(folder.join("1"), file(true, SAMPLE)).unwrap();
    assert!(opened("1", uid) && !opened("1", uid + 1) && !opened("2", uid));
    symlink(folder.join("1"), folder.join("2")).unwrap();
    std::fs::create_dir(folder.join("3")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("4"), mode).unwrap();
    assert!(!opened("2", uid) && !opened("3", uid) && !opened("4", uid));
    if chown(folder.join("1"), Some(uid + 1), None).is_ok() {
        assert!(!opened("1", uid));
    }
    let elsewhere = tmp.path().join("elsewhere");
    std::fs::rename(&folder, &elsewhere).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    assert!(!opened("1", uid) && !opened("1", uid + 1));
}

#[test]
fn a_file_that_the_process_has_not_mapped_is_not_its_own() {
    let own = Process::new(std::process::id()).unwrap();
    let perf = PerfFile {
        pid: own.pid,
        name: Some(own.pid.to_string()),
        file: std::fs::File::open("/proc/self/status").unwrap().into(),
        place: 0..4096,
        taken: 0,
        buffer: Vec::new(),
    };
    assert!(!perf.is_of(&own));
}

#[test]
fn texts_are_found_by_name() {
    let bytes = file(true, SAMPLE);
    let counters = Counters::parse(&bytes).unwrap();
    assert_eq!(counters.text_of("sun.gc.cause"), Some("No GC"));
    assert_eq!(counters.text_of("sun.gc.generation.0.capacity"), None);
    assert_eq!(counters.text_of("absent"), None);
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
