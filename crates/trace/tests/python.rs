//! The reader in Python reads what the writer in Rust writes, event for event.

mod common;

use common::{bytes_of, open, script};
use plimsoll_testbed::skip;
use plimsoll_trace::synth::{self, table};
use plimsoll_trace::text::{Form, line};
use plimsoll_trace::{Deaths, Header, Named, ThreadId, TimeUnit, Trace, Writer};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::path::{Path, PathBuf};
use std::process::Output;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs Python with our module.
fn python(args: &[&str]) -> Output {
    let mut command = plimsoll_testbed::python(args);
    command.output().expect("python3 can be started")
}

fn can_read() -> bool {
    let tried = python(&[
        "-c",
        "import plimsoll.trace; plimsoll.trace._decompressor()",
    ]);
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        skip(format!(
            "Python cannot read traces: {}",
            said.trim().lines().last().unwrap_or_default()
        ));
    }
    tried.status.success()
}

#[test]
fn the_modules_are_installed_with_the_version_of_all_else() {
    let text = std::fs::read_to_string(root().join("clients/python/pyproject.toml")).unwrap();
    let version = format!("version = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    let packages = std::fs::read_dir(root().join("clients/python"))
        .unwrap()
        .flatten();
    let is_package = |path: &PathBuf| path.join("__init__.py").is_file();
    for path in packages.map(|entry| entry.path()).filter(is_package) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(text.contains(&format!("packages = [\"{name}\"]")), "{name}");
    }
}

fn lines(file: &Path) -> Output {
    let script = root().join("crates/trace/tests/python/lines.py");
    python(&[&script.display().to_string(), &file.display().to_string()])
}

/// The output of Python for the events.
fn expected(trace: &Trace) -> String {
    let mut text = Vec::new();
    for &thread in trace.streams().keys() {
        for event in common::stream(trace, thread) {
            line(thread, &event, Form::Csv, &mut text).unwrap();
        }
    }
    String::from_utf8(text).unwrap()
}

#[track_caller]
fn same(head: &str, bytes: Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t");
    std::fs::write(&file, &bytes).unwrap();
    let output = lines(&file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found = String::from_utf8(output.stdout).unwrap();
    let expected = format!("{head}\n{}", expected(&open(bytes).unwrap()));
    let differ = found
        .lines()
        .zip(expected.lines())
        .find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn python_reads_all_kinds_of_events() {
    if !can_read() {
        return;
    }
    let header = Header {
        raw: true,
        unit: TimeUnit::Instructions,
        deaths: Deaths::Unknown,
        ..Header::default()
    };
    let mut runner = TestRunner::deterministic();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(script(1500).new_tree(&mut runner).unwrap().current());
    }
    for script in all {
        same(
            "cut False raw True instructions unknown",
            bytes_of(&header, &script),
        );
    }
}

#[test]
fn python_reads_many_blocks_and_what_is_left_of_a_cut_trace() {
    if !can_read() {
        return;
    }
    let options = synth::Options {
        scale: 400.0,
        ..synth::Options::default()
    };
    let program = table::find("hsqldb").unwrap();
    let mut bytes = synth::write(program, &options, Vec::new(), "t").unwrap();
    bytes.truncate(bytes.len() - 3000);
    let trace = open(bytes.clone()).unwrap();
    let mut head = "cut True raw False ns exact".to_owned();
    let mut names: Vec<_> = trace.names().unwrap().into_iter().collect();
    names.sort_by_key(|((what, number), _)| (what.word(), *number));
    for ((what, number), name) in names {
        head.push_str(&format!("\nname {} {number} {name}", what.word()));
    }
    same(&head, bytes);
}

/// Where blocks of a kind begin: 1 is events, 2 names, 3 the index.
fn blocks(bytes: &[u8], kind: u8) -> Vec<usize> {
    let marks = bytes.windows(5).enumerate();
    let of = marks.filter(|(_, it)| it[..4] == *b"PLTB" && it[4] == kind);
    of.map(|(at, _)| at).collect()
}

/// A trace that ends with a block of other content, whose checksums are right.
fn with_content(bytes: &[u8], at: usize, content: &[u8]) -> Vec<u8> {
    let mut head = bytes[at..at + 72].to_vec();
    head[5] = 0;
    let length = (content.len() as u32).to_le_bytes();
    head[16..20].copy_from_slice(&length);
    head[20..24].copy_from_slice(&length);
    head[64..68].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
    let sum = crc32fast::hash(&head[..68]);
    head[68..].copy_from_slice(&sum.to_le_bytes());
    [&bytes[..at], &head, content].concat()
}

/// A trace with another byte in its head, whose checksum is right. It has no facts.
fn with_head(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] = value;
    let sum = crc32fast::hash(&bytes[..36]);
    bytes[36..40].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn python_finds_the_blocks_of_a_trace_whose_index_is_damaged() {
    if !can_read() {
        return;
    }
    let mut writer = Writer::new(Vec::new(), "t", &Header::default()).unwrap();
    writer.name(Named::Thread, 0, "main").unwrap();
    for number in 1..1000 {
        writer.push(ThreadId(0), &common::alloc(number, 8)).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let index = blocks(&bytes, 3)[0];
    let mut damaged = bytes.clone();
    damaged[index + 75] ^= 1;
    let mut unknown = with_content(&bytes, index, &[9, 9, 9]);
    unknown.extend_from_slice(&bytes[bytes.len() - 20..]);
    for bytes in [damaged, unknown] {
        same("cut True raw False ns exact\nname thread 0 main", bytes);
    }
}

#[test]
fn python_tells_what_is_wrong_with_its_place() {
    if !can_read() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t");
    let mut writer = Writer::new(Vec::new(), "t", &Header::default()).unwrap();
    writer.name(Named::Thread, 0, "main").unwrap();
    writer.push(ThreadId(0), &common::alloc(1, 8)).unwrap();
    let bytes = writer.finish().unwrap();
    let second = (bytes.windows(4).enumerate())
        .filter(|(_, it)| it == b"PLTB")
        .nth(1)
        .unwrap()
        .0;
    let mut damaged = bytes.clone();
    damaged[second + 75] ^= 1;
    let names = blocks(&bytes, 2)[0];
    let wrong_names = format!(
        "TraceError: {}: block at byte {names}: its names",
        file.display()
    );
    for (bytes, why) in [
        (
            with_content(&bytes, names, &[2, 0, 9, b'm']),
            wrong_names.clone(),
        ),
        (
            with_content(&bytes, names, &[7, 0, 1, b'm']),
            wrong_names.clone(),
        ),
        (with_content(&bytes, names, &[2]), wrong_names),
        (with_head(&bytes, 12, 2), "TraceError".to_owned()),
        (
            with_head(&bytes, 12, 2),
            "the unit of time is unknown".to_owned(),
        ),
        (
            with_head(&bytes, 13, 3),
            "how exact the deaths are".to_owned(),
        ),
        (damaged, format!("block at byte {second}: the checksum")),
        (b"trace 1\n".to_vec(), "this is no trace".to_owned()),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let output = lines(&file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(&why), "{said}");
    }
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % most.max(1)
    }

    /// Changes some bytes.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            bytes[at] = bytes[at].wrapping_add(1 + self.below(255) as u8);
        }
    }
}

/// The content of the block at a place.
fn content(bytes: &[u8], at: usize) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let stored = &bytes[at + 72..at + 72 + number(at + 16)];
    match bytes[at + 5] {
        0 => stored.to_vec(),
        _ => zstd::bulk::decompress(stored, number(at + 20)).unwrap(),
    }
}

/// How many events our own reader finds; nothing if it refuses some of it.
fn events(bytes: Vec<u8>) -> Option<usize> {
    let trace = open(bytes).ok()?;
    trace.names().ok()?;
    let count = |thread: &ThreadId| {
        let stream = trace.stream(*thread).ok()?;
        stream
            .map(|event| event.ok().map(|_| 1))
            .sum::<Option<usize>>()
    };
    trace.streams().keys().map(count).sum()
}

#[test]
fn python_reads_what_is_damaged_as_we_do_or_refuses_it() {
    if !can_read() {
        return;
    }
    let mut runner = TestRunner::deterministic();
    let header = Header {
        raw: true,
        ..Header::default()
    };
    let mut scripts =
        std::iter::repeat_with(|| script(160).new_tree(&mut runner).unwrap().current());
    let whole = bytes_of(&header, &scripts.find(|it| it.len() > 80).unwrap());
    let places = blocks(&whole, 1);
    let mut random = Random(1);
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for number in 0..1500 {
        let place = places[random.below(places.len())];
        let mut bytes = whole.clone();
        match number % 4 {
            0 => random.damage(&mut bytes),
            1 => bytes.truncate(random.below(whole.len())),
            // Bytes behind the checksums.
            _ => {
                let mut inner = content(&whole, place);
                random.damage(&mut inner);
                bytes = with_content(&whole, place, &inner);
            }
        }
        let name = format!("{number:04}");
        std::fs::write(dir.path().join(&name), &bytes).unwrap();
        expected.push((name, events(bytes)));
    }
    let script = root().join("crates/trace/tests/python/damaged.py");
    let output = python(&[
        &script.display().to_string(),
        &dir.path().display().to_string(),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found = String::from_utf8(output.stdout).unwrap();
    let refused = expected.iter().filter(|(_, count)| count.is_none()).count();
    assert!((200..1300).contains(&refused), "{refused} are refused");
    for ((name, count), line) in expected.into_iter().zip(found.lines()) {
        let count = count.map_or("refused".to_owned(), |count| count.to_string());
        assert_eq!(line, format!("{name} {count}"));
    }
}
