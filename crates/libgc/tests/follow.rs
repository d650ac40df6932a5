//! Programs with a limit page: their heap follows the limit on it. The tests assert bytes and
//! counts, never times.

#[path = "support/library.rs"]
mod library;

use plimsoll_testbed::page::{Page, Running};
use plimsoll_testbed::skip;
use plimsoll_unit::Bytes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MB: Bytes = Bytes(plimsoll_unit::MB);
/// Samples taken while a limit is in force.
const SAMPLES: usize = 20;

/// The program of the adapter's tests, run over this library; `None` if it cannot be built.
fn gcbench(arguments: &[&str]) -> Option<Command> {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs");
    let out = temporary.join("followers");
    let made = Command::new("make")
        .args(["-s", "-C"])
        .arg(source)
        .arg(format!("OUT={}", out.display()))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        skip("gcbench cannot be built (install make, a C compiler and libgc-dev)");
        return None;
    }
    Some(with_ours(Command::new(out.join("gcbench")), arguments))
}

fn with_ours(mut command: Command, arguments: &[&str]) -> Command {
    let directory: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("following");
    library::link(&directory);
    command.args(arguments).env("LD_LIBRARY_PATH", directory);
    command
}

fn stays_below(program: &Running, limit: Bytes) {
    for _ in 0..SAMPLES {
        let uses = program.uses();
        assert!(uses <= limit, "uses {uses} of {limit}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn use_follows_the_limit_down_and_up() {
    let Some(gcbench) = gcbench(&["--seconds", "600"]) else {
        return;
    };
    let page = Page::new(MB * 300);
    let mut program = page.start(gcbench);
    program.until("fills its limit", |uses| uses > MB * 265);
    stays_below(&program, MB * 300);
    page.set(MB * 120);
    program.until("gives back", |uses| uses <= MB * 120);
    stays_below(&program, MB * 120);
    page.set(MB * 400);
    program.until("grows again", |uses| uses > MB * 355);
    stays_below(&program, MB * 400);
}

#[test]
fn guile_follows_the_limit_down_and_up() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs/churn.scm");
    let script = script.display().to_string();
    let arguments = ["--no-auto-compile", &script, "15", "600"];
    if Command::new("guile").arg("--version").output().is_err() {
        skip("there is no guile (install guile-3.0)");
        return;
    }
    let page = Page::new(MB * 250);
    let mut program = page.start(with_ours(Command::new("guile"), &arguments));
    program.until("fills its limit", |uses| uses > MB * 220);
    page.set(MB * 120);
    program.until("gives back", |uses| uses <= MB * 120);
    page.set(MB * 200);
    program.until("grows again", |uses| uses > MB * 175);
    stays_below(&program, MB * 200);
}

#[test]
fn with_memory_at_hand_it_collects_rarely_and_computes_the_same() {
    let last = |limit: Option<Bytes>| -> Option<serde_json::Value> {
        let mut command = gcbench(&["--iterations", "60"])?;
        let printed = match limit {
            Some(limit) => Page::new(limit).start(command).finish(),
            None => String::from_utf8(command.output().ok()?.stdout).ok()?,
        };
        serde_json::from_str(printed.lines().last()?).ok()
    };
    let (Some(plain), Some(granted)) = (last(None), last(Some(MB * 500))) else {
        return;
    };
    assert_eq!(plain["checksum"], granted["checksum"]);
    let collections = |line: &serde_json::Value| line["collections"].as_u64().unwrap();
    assert!(
        collections(&granted) * 5 <= collections(&plain),
        "{granted} {plain}"
    );
}

/// A program may close all descriptors and use their numbers for its own files, so none is kept.
#[test]
fn no_descriptor_is_kept_while_a_limit_is_followed() {
    let Some(gcbench) = gcbench(&["--seconds", "120"]) else {
        return;
    };
    let page = Page::new(MB * 300);
    let mut program = page.start(gcbench);
    program.until("fills its limit", |uses| uses > MB * 265);
    page.set(MB * 120);
    program.until("gives back", |uses| uses <= MB * 120);
    // Each look and each collection opens some for a moment.
    let open = PathBuf::from(format!("/proc/{}/fd", program.pid()));
    let kept = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        let target = target.display().to_string();
        target.starts_with("/proc/") || target.contains("pidfd") || target.ends_with("/page")
    };
    let found = || -> BTreeSet<PathBuf> {
        let all = std::fs::read_dir(&open).unwrap().flatten();
        all.map(|entry| entry.path()).filter(kept).collect()
    };
    let mut always = found();
    for _ in 0..10_000 {
        if always.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        let now = found();
        always.retain(|path| now.contains(path));
    }
    panic!("kept open: {always:?}");
}

/// The page is no longer written to: the last limit stays in force.
#[test]
fn the_limit_of_a_broker_that_died_holds() {
    let Some(gcbench) = gcbench(&["--seconds", "600"]) else {
        return;
    };
    let mut page = Page::new(MB * 200);
    let mut program = page.start(gcbench);
    program.until("fills its limit", |uses| uses > MB * 170);
    page.die();
    std::thread::sleep(Duration::from_secs(4));
    stays_below(&program, MB * 200);
}
