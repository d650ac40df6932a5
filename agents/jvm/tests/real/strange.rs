//! Machines whose tables are not what we know, played by a small C program.

use crate::machine::library;
use crate::support::LONG;
use plimsoll_runtimes::hotspot::agent::{Page, PageError};
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::skip;
use plimsoll_unit::Bytes;
use plimsoll_wire::collections::Wish;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A machine that is being played.
struct Played {
    child: Child,
    /// Its output.
    out: BufReader<ChildStdout>,
    process: Process,
    /// The result of loading, how many pauses were played, and how many environments were given up.
    said: String,
}

impl Played {
    fn of(program: &Path, way: &str) -> Played {
        let mut child = Command::new(program)
            .arg(library())
            .arg(way)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        let process = Process::new(child.id()).unwrap();
        Played {
            child,
            out,
            process,
            said: said.trim().to_owned(),
        }
    }

    /// Plays one more pause. Returns how many bytes of its objects have changed.
    fn pauses(&mut self) -> u64 {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        self.out.read_line(&mut said).unwrap();
        said.trim().parse().unwrap()
    }

    /// Ends it, and sees that it ended well.
    fn ends(mut self, way: &str) {
        drop(self.child.stdin.take());
        let until = Instant::now() + LONG;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert!(status.success(), "{way}: {status}");
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a machine in one way. Returns what the page says of giving back.
fn played(program: &Path, way: &str) -> String {
    let played = Played::of(program, way);
    assert_eq!(
        played.said, "0 5 0",
        "{way}: result of loading, pauses played, environments given up"
    );
    let page = Page::of(&played.process).unwrap();
    let told = page.view().unwrap().totals().unwrap();
    assert_eq!((told.pauses, told.given_back), (5, 0), "{way}");
    let refusal = page.view().unwrap().refusal().unwrap_or_default();
    played.ends(way);
    refusal
}

/// The program that plays machines. `None` with a message without a compiler.
fn player(folder: &Path) -> Option<PathBuf> {
    built(folder, &["-rdynamic"])
}

/// The same, built with these arguments: without `-rdynamic` it exports nothing.
fn built(folder: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let program = folder.join("fakejvm");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/fakejvm.c");
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Wextra"])
        .args(arguments)
        .arg("-o")
        .args([&program, &source])
        .arg("-ldl")
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("no C compiler");
        return None;
    }
    Some(program)
}

#[test]
fn a_machine_that_sends_no_events_has_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = player(folder.path()) else {
        return;
    };
    let played = Played::of(&program, "no-events");
    assert_eq!(
        played.said, "1 0 1",
        "result of loading, pauses played, environments given up"
    );
    let page = Page::of(&played.process);
    assert!(matches!(page, Err(PageError::Absent { .. })), "{page:?}");
    played.ends("no-events");
}

#[test]
fn an_agent_that_is_loaded_twice_gives_its_second_environment_up() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = player(folder.path()) else {
        return;
    };
    let played = Played::of(&program, "twice");
    assert_eq!(
        played.said, "0 5 1",
        "result of loading, pauses played, environments given up"
    );
    let page = Page::of(&played.process).unwrap();
    let told = page.view().unwrap().totals().unwrap();
    assert_eq!(told.pauses, 5, "each is counted once");
    played.ends("twice");
}

#[test]
fn pauses_within_others_are_parts_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = player(folder.path()) else {
        return;
    };
    assert_eq!(played(&program, "nested"), "", "it could give back");
}

#[test]
fn a_machine_that_exports_nothing_lives_and_the_page_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = built(folder.path(), &[]) else {
        return;
    };
    let refusal = played(&program, "right");
    assert!(refusal.contains("no tables"), "{refusal}");
}

#[test]
fn free_memory_goes_and_neither_tables_nor_objects_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = player(folder.path()) else {
        return;
    };
    for way in ["right", "g1-right"] {
        let mut played = Played::of(&program, way);
        let page = Page::of(&played.process).unwrap();
        page.wish(Some(Wish::stay(Bytes::ZERO)));
        // Memory that a young collection leaves for the next ones is given back in one of those.
        let changed: u64 = (0..20).map(|_| played.pauses()).sum();
        assert_eq!(changed, 0, "{way}");
        let told = page.view().unwrap().totals().unwrap();
        let refusal = page.view().unwrap().refusal();
        // All but a few of 64 MiB.
        assert!(told.given_back > 40 << 20, "{way}: {told:?} {refusal:?}");
        played.ends(way);
    }
}

#[test]
fn whatever_its_tables_are_it_lives_and_the_page_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = player(folder.path()) else {
        return;
    };
    for (way, said) in [
        ("null", "no tables"),
        ("wild", "no tables"),
        ("empty", "no tables"),
        ("endless", "no tables"),
        ("nameless", "no tables"),
        ("other", "Unknown"),
        ("nothing-known", "does not tell debuggers"),
        ("newer", "Java 99"),
        ("wild-heap", "makes no sense"),
        ("wild-spaces", "makes no sense"),
        ("inside-out", "makes no sense"),
        ("g1-nameless", "does not tell debuggers what"),
        ("g1-other", "does not tell debuggers where"),
        ("g1-wild-table", "makes no sense"),
        ("g1-wild-region", "makes no sense"),
        ("g1-none", "makes no sense"),
        ("g1-many", "makes no sense"),
        ("g1-inside-out", "makes no sense"),
    ] {
        let refusal = played(&program, way);
        assert!(refusal.contains(said), "{way}: {refusal}");
    }
}
