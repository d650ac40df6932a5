//! `plimsoll sim` as people and programs call it.

mod common;

use common::{Place, stderr};
use serde_json::Value;

/// A small trace of 81 threads.
const SYNTH: [&str; 8] = [
    "trace", "synth", "hsqldb", "--scale", "300", "--seed", "3", "-o",
];

#[test]
fn a_trace_is_simulated_for_people_and_for_programs() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    let args = [
        "sim",
        "t",
        "-c",
        "genmc,semispace",
        "--heap",
        "5,1G",
        "-p",
        "2",
    ];
    let text = place.text(&args);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    for needle in [
        "RR",
        "LARF",
        "MQRR",
        "mark/cons",
        "SemiSpace, heap 1.00G",
        "81 threads",
    ] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    let json = place.text(&[&args[..], &["--json"]].concat());
    let runs: Value = serde_json::from_str(&json).unwrap();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 3);
    for run in runs {
        assert_eq!(
            (&run["error"], &run["processors"]),
            (&Value::Null, &2.into())
        );
        let outcome = &run["outcome"];
        let number = |name: &str| outcome[name].as_u64().unwrap();
        let sum = number("freed") + number("live") + number("garbage");
        assert_eq!(number("allocated"), sum);
        assert!(outcome["thread_pauses"]["median"].is_number());
        assert!(run["mark_cons"].is_number() && run["scheduler"].is_string());
    }
    assert_eq!(
        json,
        place.text(&[&args[..], &["--json"]].concat()),
        "deterministic"
    );
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    let out = place.call(&["sim", "t", "--heap", "0.5", "-s", "rr"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(
        text.contains("the heap is too small: an object of"),
        "{text}"
    );
    let out = place.call(&["sim", "absent"]);
    assert!(stderr(&out).contains("absent"), "{}", stderr(&out));
    let out = place.call(&["sim", "t", "--heap", "much"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("is no size"), "{}", stderr(&out));
}
