//! Machines whose tables are not what we know, played by a small C program.

use crate::machine::library;
use crate::support::LONG;
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::skip;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Plays a machine in one way. Returns what the page says of giving back.
fn played(program: &Path, way: &str) -> String {
    let mut child = Command::new(program)
        .arg(library())
        .arg(way)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(
        line.trim(),
        "0 5",
        "{way}: result of loading, pauses played"
    );
    let process = Process::new(child.id()).unwrap();
    let page = Page::of(&process).unwrap();
    let told = page.view().unwrap().totals().unwrap();
    assert_eq!((told.pauses, told.given_back), (5, 0), "{way}");
    let refusal = page.view().unwrap().refusal().unwrap_or_default();
    drop(child.stdin.take());
    let until = Instant::now() + LONG;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < until),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(status.success(), "{way}: {status}");
    refusal
}

#[test]
fn whatever_its_tables_are_it_lives_and_the_page_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fakejvm");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/fakejvm.c");
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Wextra", "-rdynamic", "-o"])
        .args([&program, &source])
        .arg("-ldl")
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("no C compiler");
        return;
    }
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
