//! `plimsoll pin` as people and programs call it.

mod common;

use common::ground::{MIB, group};
use common::{Place, Started, stderr, wait_for};
use plimsoll_testbed::{Child, programs};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The programs of these tests are this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

/// A program that sleeps, once it is itself.
fn sleeper(place: &Place) -> (Started, String) {
    let started = Started(place.program("sleep", &["600"]).spawn().unwrap());
    let pid = started.0.id().to_string();
    wait_for("the program is itself", || {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (comm.trim() == "sleep" && state.contains(") S ")).then_some(())
    });
    (started, pid)
}

#[test]
fn a_dry_run_says_what_it_saw_and_ends() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let args = ["pin", &pid, "--dry-run", "--window", "1s", "--without-swap"];
    let text = place.text(&args);
    assert!(
        text.starts_with("nothing to hold: 1 process lost"),
        "{text}"
    );
    let text = place.text(&[&args[..], &["--json", "--budget", "3M"]].concat());
    let value: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(value["state"], "watching");
    assert_eq!(
        (&value["held"], &value["budget"]),
        (&0.into(), &(3 << 20).into())
    );
    assert_eq!(value["processes"], 1);
    assert!(value["files"].as_u64().unwrap() >= 2, "{value}");
    assert!(value["present"].as_u64().unwrap() > 64 << 10, "{value}");
    assert!(value["ranges"].as_array().unwrap().is_empty());
}

/// Makes a file whose bytes are on the disk and in no cache.
fn make_file(path: &Path, bytes: u64) {
    let piece: Vec<u8> = (0..bytes).map(|n| (n * 7 + n / 4096) as u8).collect();
    std::fs::write(path, piece).unwrap();
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// A program loses pages of a file to a stream beside it, and reads them again.
#[test]
fn it_explains_why_each_range_is_held_and_what_that_saves() {
    let place = Place::new();
    let Some(group) = group("pin-explain", 56 * MIB) else {
        return;
    };
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (hot, cold) = (disk.path().join("hot"), disk.path().join("cold"));
    make_file(&hot, 48 * MIB);
    make_file(&cold, 160 * MIB);
    let start = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        Child::start_again("program", &words, Some(&group)).unwrap()
    };
    let pages = "--bytes 50331648 --part 0.3334 --every 5";
    let mut reader = start(format!("pages --path {} {pages}", hot.display()));
    let _stream = start(format!("stream --path {} --rate 100M", cold.display()));
    let lost = reader.until(Duration::from_secs(120), |p| p.major_faults > 10_000);
    lost.unwrap();
    let pid = reader.pid().to_string();
    let args = [
        "pin",
        &pid,
        "--explain",
        "--window",
        "3s",
        "--budget",
        "20M",
    ];
    let mut command = place.command(&[&args[..], &["--without-swap"]].concat());
    let output = std::fs::File::create(place.path("told")).unwrap();
    let mut pin = Started(command.stdout(output).spawn().unwrap());
    let (head, range) = wait_for("ranges are explained", || {
        let told = std::fs::read_to_string(place.path("told")).ok()?;
        let range = told.lines().find(|line| line.ends_with("/hot"))?.to_owned();
        let head = told.lines().find(|line| line.starts_with("  HELD"))?;
        told.contains(" a second\n")
            .then(|| (head.to_owned(), range))
    });
    let names: Vec<&str> = head.split_whitespace().collect();
    let expected = ["HELD", "READS/S", "FAULTS/S", "OFFSET", "PIDS", "FILE"];
    assert_eq!(names, expected);
    let words: Vec<&str> = range.split_whitespace().collect();
    assert_eq!(words.len(), names.len(), "{range}");
    assert!(words[0].ends_with(['K', 'M']), "{range}");
    let offset = u64::from_str_radix(words[3], 16).unwrap();
    assert!(
        offset < 16 * MIB,
        "only a third of the file is read: {range}"
    );
    assert_eq!(words[4], "1", "{range}");
    pin.signal(libc::SIGINT);
    assert!(pin.wait().success());
}

#[test]
fn it_ends_with_the_program_or_by_a_signal() {
    let place = Place::new();
    let (mut one, pid) = sleeper(&place);
    let mut watching = place.start(&["pin", &pid, "--without-swap"]);
    let mut told = place.start(&["pin", &pid, "--without-swap"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(watching.0.try_wait().unwrap().is_none());
    told.signal(libc::SIGINT);
    assert!(told.wait().success());
    one.0.kill().unwrap();
    one.0.wait().unwrap();
    assert!(watching.wait().success());
}

#[test]
fn bad_input_is_named() {
    let place = Place::new();
    for (args, needle) in [
        (
            &["pin", "2147483647"][..],
            "no process has the number 2147483647",
        ),
        (
            &["pin", "--cgroup", "/nowhere"],
            "no memory cgroup /nowhere: give its path",
        ),
        (&["pin", "--cgroup", "/proc"], "/proc"),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        let output = place.call(&["pin", "2", "--dry-run", "-w", "1s", "--without-swap"]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains("kernel thread") || said.contains("same user"),
            "{said}"
        );
    }
}
