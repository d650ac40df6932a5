//! `plimsoll sim` as people and programs call it.

#[path = "../../cli/tests/common/mod.rs"]
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
        "objects",
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
fn a_trace_that_was_cut_is_simulated_as_the_warning_says() {
    let place = Place::new();
    place.text(&["trace", "synth", "lusearch", "--shorten", "100", "-o", "t"]);
    let whole = std::fs::read(place.path("t")).unwrap();
    std::fs::write(place.path("cut"), &whole[..whole.len() * 3 / 5]).unwrap();
    let out = place.call(&["sim", "cut", "-s", "rr,larf"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let said = stderr(&out);
    assert!(out.status.success(), "{text}{said}");
    assert!(said.contains("what stands before is simulated"), "{said}");
    for scheduler in ["RR", "LARF"] {
        let told = text.lines().find(|line| {
            line.starts_with(scheduler) && line.contains("objects died whose allocations are in")
        });
        assert!(told.is_some(), "{text}");
    }
}

#[test]
fn ratios_and_ways_with_ties_are_axes_where_they_matter() {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    let args = [
        "sim",
        "t",
        "--heap",
        "8",
        "-c",
        "genmc,g1,semispace",
        "--new-ratio",
        "2,0.5",
        "-q",
        "10us",
        "--ties",
        "newest,oldest",
    ];
    let text = place.text(&args);
    for needle in ["GenMC, heap", "G1 (ratio 0.5), heap", "LARF 10.00us oldest"] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    let runs: Value =
        serde_json::from_str(&place.text(&[&args[..], &["--json"]].concat())).unwrap();
    let runs = runs.as_array().unwrap();
    // Two ratios, but of the collector without generations, with four schedulers each.
    assert_eq!(runs.len(), (2 + 2 + 1) * 4);
    for run in runs {
        assert_eq!(run["new_ratio"].is_null(), run["collector"] == "SemiSpace");
        assert_eq!(run["ties"].is_null(), run["scheduler"] != "LARF");
    }
    let minor = |ratio: f64| {
        let run = runs
            .iter()
            .find(|it| it["collector"] == "GenMC" && it["new_ratio"] == ratio);
        run.unwrap()["outcome"]["minor"].as_u64().unwrap()
    };
    assert!(
        minor(0.5) <= minor(2.0),
        "a larger nursery is full less often"
    );
    let out = place.call(&["sim", "t", "--new-ratio", "0"]);
    assert!(stderr(&out).contains("is no ratio"), "{}", stderr(&out));
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
    let raw = "trace 1\nraw\n0 alloc object=1 size=16\n0 store holder=1 slot=0 target=1\n0 end\n";
    place.write("raw.txt", raw);
    place.text(&["trace", "convert", "raw.txt", "-o", "raw"]);
    std::fs::create_dir(place.path("left.recording")).unwrap();
    for (args, command) in [
        (&["sim", "raw"][..], "trace deaths raw -o"),
        (
            &["together", "raw", "--memory", "1G"],
            "trace deaths raw -o",
        ),
        (&["sim", "left.recording"], "trace deaths left.recording -o"),
        (
            &["trace", "info", "left.recording"],
            "trace deaths left.recording -o",
        ),
    ] {
        let out = place.call(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(stderr(&out).contains(command), "{args:?}: {}", stderr(&out));
    }
    place.text(&["trace", "deaths", "raw", "-o", "whole"]);
    place.text(&["sim", "whole", "--heap", "1M"]);
    let out = place.call(&["sim", "t", "--heap", "much"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("is no size"), "{}", stderr(&out));
}

#[test]
fn constants_are_measured_and_used() {
    let place = Place::new();
    let text = place.text(&[
        "sim",
        "calibrate",
        "--live",
        "1M",
        "--repeat",
        "5",
        "-o",
        "c",
    ]);
    for needle in [
        "copied byte",
        "swept byte",
        "contention",
        "switch",
        "5 repetitions",
    ] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    let json = place.text(&[
        "sim",
        "calibrate",
        "--live",
        "1M",
        "--repeat",
        "5",
        "--json",
    ]);
    let found: Value = serde_json::from_str(&json).unwrap();
    let constants = found["constants"].as_array().unwrap();
    assert_eq!(constants.len(), 6);
    for constant in constants {
        assert_eq!(constant["values"].as_array().unwrap().len(), 5);
        let number = |name: &str| constant[name].as_f64().unwrap();
        assert!(number("least") <= number("median") && number("median") <= number("greatest"));
    }
    place.text(&[&SYNTH[..], &["t"]].concat());
    place.write(
        "d",
        "copied_byte = 0.5\nmarked_byte = 1\ncompacted_byte = 2\n\
         swept_byte = 0.25\ncontention = 100\nswitch = 7\n",
    );
    let sim = ["sim", "t", "-s", "rr", "--json", "--constants"];
    for (more, contention) in [
        (&["c"][..], None),
        (&["d"], Some(100_000)),
        (&["d", "--contention-cost", "3"], Some(3000)),
    ] {
        let json = place.text(&[&sim[..], more].concat());
        let runs: Value = serde_json::from_str(&json).unwrap();
        let found = runs[0]["costs"]["contention"].as_u64();
        assert!(contention.is_none() || found == contention, "{json}");
        assert!(contention.is_none() || runs[0]["costs"]["swept_byte"] == 250);
    }
    let out = place.call(&["sim", "t", "--constants", "t"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("t: "), "{}", stderr(&out));
    for bad in [&["--repeat", "4"][..], &["--live", "1K"], &["t"]] {
        let out = place.call(&[&["sim", "calibrate"], bad].concat());
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
    }
}
