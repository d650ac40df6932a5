//! `plimsoll together` as people and programs call it.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use common::{Place, stderr};
use serde_json::Value;

/// A small trace of 32 threads.
const SYNTH: [&str; 7] = [
    "trace",
    "synth",
    "lusearch",
    "--shorten",
    "100",
    "--scale",
    "3",
];

fn made() -> Place {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["-o", "a.plt"]].concat());
    place.text(&[&SYNTH[..], &["--seed", "7", "-o", "b.plt"]].concat());
    place
}

#[test]
fn two_traces_share_a_memory_by_each_policy() {
    let place = made();
    let policies = "shares,weights,isla-vista,square-root,fixed";
    let args = [
        "together", "a.plt", "b.plt", "--memory", "16M", "--weight", "2,1", "--policy", policies,
        "--start", "0s,20ms", "--stop", "-,10s", "--plot", "plot.svg",
    ];
    let text = place.text(&args);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    for needle in [
        "shares in 16.0M",
        "fixed in 16.0M",
        "costs of the paper (2007)",
        "mark/cons",
        "average ideal",
        "met in time",
    ] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    let json = place.text(&[&args[..], &["--json"]].concat());
    let all: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["policy"].as_str())
        .collect();
    assert_eq!(names.join(","), policies);
    for one in all.as_array().unwrap() {
        assert!(one["most_granted"].as_u64() <= one["memory"].as_u64());
        let programs = one["programs"].as_array().unwrap();
        assert_eq!(
            (programs.len(), &programs[1]["began"]),
            (2, &20_000_000.into())
        );
        for program in programs {
            assert!(program["outcome"]["allocated"].as_u64() > Some(1_000_000));
            assert!(program["points"].as_array().is_some_and(|it| it.len() > 10));
            assert!(program["revocations"]["met"].is_u64() && program["share"]["ideal"].is_u64());
        }
    }
    assert_eq!(
        json,
        place.text(&[&args[..], &["--json"]].concat()),
        "the same bytes"
    );
    let svg = std::fs::read_to_string(place.path("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("a (2)") && svg.contains("could have"));
    place.text(&[&args[..14], &["plot.html"]].concat());
    let html = std::fs::read_to_string(place.path("plot.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains(&svg));
    assert!(
        svg.contains("2 programs in 16.0 MiB, by shares, weights, "),
        "a headline"
    );
    assert!(svg.contains("a (weight 2) from 0 s, b (weight 1) from 0.02 s") && svg.contains("MiB"));
}

#[test]
fn outputs_have_the_flags_of_a_simulation() {
    let place = made();
    let args = [
        "together",
        "a.plt",
        "b.plt",
        "--memory",
        "16M",
        "--weight",
        "2,1",
        "--policy",
        "shares,fixed",
        "--start",
        "0s,20ms",
        "--stop",
        "-,10s",
    ];
    let with = |more: &[&str]| place.text(&[&args[..], more].concat());
    with(&["--plot", "plot.html"]);
    let html = std::fs::read_to_string(place.path("plot.html")).unwrap();
    assert_eq!(with(&["--html", "-"]), html);
    let csv = with(&["--csv"]);
    assert!(
        csv.starts_with("policy,memory_bytes,trace,weight,"),
        "{csv}"
    );
    assert!(
        csv.lines().count() == 5 && csv.contains("\nfixed,16777216,b.plt,1,0,20000000,"),
        "{csv}"
    );
    assert_eq!(with(&["--csv=all.csv"]), "");
    assert_eq!(std::fs::read_to_string(place.path("all.csv")).unwrap(), csv);
    let out = place.call(&["sim", "a.plt", "--csv", "s.csv"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("say --csv=s.csv"), "{}", stderr(&out));
}

#[test]
fn each_program_has_the_settings_of_a_simulation() {
    let place = made();
    place.text(&[
        "sim",
        "calibrate",
        "--live",
        "1M",
        "--repeat",
        "5",
        "-o",
        "costs",
    ]);
    let outcomes = |more: &[&str]| {
        let args = [
            "together", "a.plt", "b.plt", "--memory", "16M", "--policy", "fixed", "--json",
        ];
        let json = place.text(&[&args[..], more].concat());
        let all: Value = serde_json::from_str(&json).unwrap();
        [0, 1].map(|which| all[0]["programs"][which]["outcome"].clone())
    };
    let plain = outcomes(&["-s", "mqrr,larf", "--heap", "4"]);
    for (settings, differs) in [
        (&["--memory-quantum", "200K,10K"][..], [true, false]),
        (&["--time-bound", "1us"], [true, false]),
        (&["--ties", "newest,oldest"], [false, true]),
        (&["-q", "1.14ms,10us"], [false, true]),
        (&["--new-ratio", "2,8"], [false, true]),
        (&["--patience", "0"], [false, true]),
        (&["--gc-cost", "1"], [true, true]),
        (&["--constants", "costs"], [true, true]),
    ] {
        let found = outcomes(&[&["-s", "mqrr,larf", "--heap", "4"], settings].concat());
        let changed = [0, 1].map(|which| found[which] != plain[which]);
        assert_eq!(changed, differs, "{settings:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let place = made();
    for (args, status, why) in [
        (
            &["--memory", "16M", "--weight", "1,2,3"][..],
            2,
            "--weight has 3 values for 2 programs",
        ),
        (&["--memory", "16M", "--weight", "0"], 2, "give 1 to 10000"),
        (&["--memory", "16M", "--weight", "-7"], 2, "give 1 to 10000"),
        (
            &["--memory", "16M", "--priority", "101"],
            2,
            "give -100 to 100",
        ),
        (
            &["--memory", "16M", "--ties", "newest,oldest,newest"],
            2,
            "--ties has 3 values for 2 programs",
        ),
        (&["--memory", "16M", "--hog", "5M"], 2, "is no hog"),
        (
            &["--memory", "16M", "--hog", "32M@1s-2s"],
            1,
            "larger than the memory",
        ),
        (
            &["--memory", "16M", "--stop", "0s"],
            1,
            "stop before it starts",
        ),
        (
            &["--memory", "1M"],
            1,
            "alive at once, more than the memory",
        ),
        (
            &["--memory", "16M", "--policy", "fixed", "--heap", "0.5"],
            1,
            "a.plt: thread",
        ),
        (&[], 2, "--memory"),
    ] {
        let out = place.call(&[&["together", "a.plt", "b.plt"][..], args].concat());
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let out = place.call(&["together", "--memory", "16M"]);
    assert_eq!(out.status.code(), Some(2));
}
