//! `plimsoll trace` as people and programs call it.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use common::{Place, limit_open_files, stderr};
use serde_json::Value;

/// A small trace of many threads.
const SYNTH: [&str; 8] = [
    "trace", "synth", "ecperf", "--scale", "2000", "--seed", "3", "-o",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_program_is_made_up_shown_and_verified() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    let info = json(&place.text(&["trace", "info", "t", "--json"]));
    assert_eq!(
        (&info["whole"], &info["unit"]),
        (&true.into(), &"ns".into())
    );
    assert_eq!(info["facts"]["program"], "ecperf");
    assert_eq!(info["threads"].as_array().unwrap().len(), 405);
    assert_eq!(info["threads"][7]["name"], "worker-7");
    let verified = json(&place.text(&["trace", "verify", "t", "--json"]));
    assert_eq!(verified["faults"], 0);
    for same in ["objects", "bytes", "largest_live"] {
        assert_eq!(verified[same], info[same], "{same}");
    }
    let text = place.text(&["trace", "info", "t", "--threads"]);
    assert!(text.contains("worker-404"), "{text}");
    let is_told = |line: &str| line.starts_with("  program ") && line.ends_with(" ecperf");
    assert!(text.lines().any(is_told), "{text}");
    assert!(
        place
            .text(&["trace", "verify", "t"])
            .contains("makes sense; 405 threads")
    );
    // The same seed makes the same file, and nothing else is left behind.
    place.text(&[&SYNTH[..], &["u"]].concat());
    assert_eq!(
        std::fs::read(place.path("t")).unwrap(),
        std::fs::read(place.path("u")).unwrap()
    );
    assert!(!place.path("u.part").exists());
}

#[test]
fn traces_become_text_and_csv_and_come_back() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    place.text(&["trace", "convert", "t", "-o", "t.txt"]);
    let text = std::fs::read_to_string(place.path("t.txt")).unwrap();
    assert_eq!(place.text(&["trace", "convert", "t"]), text);
    place.text(&["trace", "convert", "t.txt", "-o", "back"]);
    place.text(&["trace", "convert", "t", "--to", "csv", "t.csv"]);
    place.text(&["trace", "convert", "t.csv", "-o", "from-csv"]);
    // In place, and with another compression.
    place.text(&[
        "trace", "convert", "t", "--to", "trace", "--level", "9", "-o", "t",
    ]);
    let sums = |file: &str| {
        let mut info = json(&place.text(&["trace", "info", file, "--json"]));
        for kept in ["trace", "facts", "identity", "largest_live"] {
            info[kept] = Value::Null;
        }
        for thread in info["threads"].as_array_mut().unwrap() {
            thread["name"] = Value::Null;
        }
        info
    };
    assert_eq!(sums("back"), sums("t"));
    assert_eq!(sums("from-csv"), sums("t"));
    let head = place.text(&["trace", "head", "t", "-n", "3"]);
    assert!(
        head.starts_with("0 stamp order=1\n0 alloc object=1 size="),
        "{head}"
    );
    let third = place.text(&["trace", "head", "t", "-t", "3", "--skip", "1", "-n", "1"]);
    assert!(third.starts_with("3 alloc object="), "{third}");
}

#[test]
fn files_of_threads_become_one() {
    let place = Place::new();
    for thread in 1..=3 {
        let text =
            format!("trace 1\nidentity 5\n{thread} alloc object={thread} size=16\n{thread} end\n");
        place.write("t.txt", &text);
        place.text(&["trace", "convert", "t.txt", "-o", &format!("t{thread}")]);
    }
    place.text(&["trace", "merge", "t1", "t2", "t3", "-o", "all"]);
    let info = json(&place.text(&["trace", "info", "all", "--json"]));
    assert_eq!((&info["objects"], &info["bytes"]), (&3.into(), &48.into()));
    let twice = place.call(&["trace", "merge", "t1", "t1", "-o", "twice"]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(stderr(&twice).contains("both have a stream of thread 1"));
    assert!(!place.path("twice").exists() && !place.path("twice.part").exists());
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    let whole = std::fs::read(place.path("t")).unwrap();
    std::fs::write(place.path("cut"), &whole[..whole.len() * 2 / 3]).unwrap();
    let info = json(&place.text(&["trace", "info", "cut", "--json"]));
    assert!(info["cut"]["offset"].as_u64().unwrap() > 0 && info["objects"].as_u64().unwrap() > 0);
    let head = place.call(&["trace", "head", "cut"]);
    assert!(head.status.success() && stderr(&head).contains("is cut at byte"));
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    std::fs::write(place.path("damaged"), damaged).unwrap();
    let text = "trace 1\n0 death object=1\n0 alloc object=1 size=8\n0 enter monitor=2\n0 end\n";
    place.write("bad.txt", text);
    place.text(&["trace", "convert", "bad.txt", "-o", "bad"]);
    for (file, needle) in [
        ("cut", "the trace is cut at byte"),
        ("damaged", "block at byte"),
        ("bad", "bad: thread 0, event 0 (block at byte"),
        ("bad", "object 1 dies before it is born (thread 0, event 1)"),
        ("bad", "monitor 2 is entered here and never released"),
    ] {
        let output = place.call(&["trace", "verify", file]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(text.contains(needle), "{file}: {text}");
    }
    place.write("zero.txt", "trace 1\n0 alloc object=1 size=0\n");
    let zero = place.call(&["trace", "convert", "zero.txt", "-o", "zero"]);
    assert!(stderr(&zero).contains("zero.txt: line 2: an object of 0 bytes"));
    let foreign = place.call(&["trace", "info", "zero.txt"]);
    assert!(stderr(&foreign).contains("this is no trace") && stderr(&foreign).contains("convert"));
    let absent = place.call(&["trace", "info", "absent"]);
    assert!(stderr(&absent).contains("absent: No such file"));
}

#[test]
fn more_traces_are_merged_than_files_may_be_open_at_first() {
    let place = Place::new();
    let names: Vec<String> = (0..100).map(|thread| format!("t{thread}")).collect();
    for (thread, name) in names.iter().enumerate() {
        let text = format!(
            "trace 1\nidentity {:032x}\n{thread} alloc object={} size=24\n{thread} end\n",
            42,
            thread + 1
        );
        place.write("text", &text);
        place.text(&["trace", "convert", "text", "-o", name]);
    }
    let names = names.iter().map(String::as_str);
    let args: Vec<&str> = ["trace", "merge", "-o", "all"]
        .into_iter()
        .chain(names)
        .collect();
    let mut command = place.command(&args);
    limit_open_files(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let info = json(&place.text(&["trace", "info", "all", "--json"]));
    assert_eq!(info["threads"].as_array().unwrap().len(), 100);
}
