//! The objects that are seen, by mode and JDK.

use crate::common::stderr;
use crate::{Stage, java, recorded};
use plimsoll_testbed::{cases, skip};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a machine allocates for threads before it tells of them.
const UNSEEN: u64 = 6 << 10;
/// The recorder that also writes down what is alive at the end.
const ALIVE: &str = "libplimsoll_tracer_alive.so";
/// The output of the program.
const PRINTED: &str = "sum 293610 kept 143 shared 30\n";

/// Bytes in the trace and bytes that the machine counts, as the summary tells them.
fn counts(told: &str) -> (u64, u64) {
    let number = |before: &str, after: &str| -> u64 {
        let rest = told
            .split_once(before)
            .unwrap_or_else(|| panic!("{before}: {told}"))
            .1;
        rest.split(after).next().unwrap().trim().parse().unwrap()
    };
    (
        number("objects, ", " bytes"),
        number("machine counts ", " bytes"),
    )
}

/// The objects of a trace in text: class, and whether it dies.
fn objects(text: &str) -> BTreeMap<u64, (String, bool)> {
    let field = |words: &[&str], name: &str| -> Option<u64> {
        words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.parse().ok())
    };
    let mut names: BTreeMap<u64, &str> = BTreeMap::new();
    let mut objects = BTreeMap::new();
    let mut deaths = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["name", "class", number, name] => drop(names.insert(number.parse().unwrap(), name)),
            [_, "alloc", ..] => {
                let class = names[&field(&words, "class=").unwrap()].to_owned();
                objects.insert(field(&words, "object=").unwrap(), (class, false));
            }
            [_, "death", ..] => deaths.push(field(&words, "object=").unwrap()),
            _ => {}
        }
    }
    for object in deaths {
        objects.get_mut(&object).unwrap().1 = true;
    }
    objects
}

/// Whether objects of a class are compared. An object that the machine keeps for itself is dead for the
/// program, so only the program's own classes are compared. Lambdas that capture nothing are kept by their
/// call sites, which are the machine's.
fn is_the_programs(class: &str) -> bool {
    let own = class.starts_with("Shapes") || class.starts_with("java.util.HashMap");
    own && !class.contains("$$Lambda")
}

#[test]
fn everything_is_seen_and_deaths_are_those_of_the_heap() {
    let Some(stage) = Stage::with_recorder(ALIVE) else {
        return;
    };
    for jdk in recorded() {
        let (java, version) = (jdk.java().display().to_string(), jdk.version);
        // Code of the machine's own classes is verified, too.
        let verified = [
            "-XX:+BytecodeVerificationLocal",
            "-XX:+BytecodeVerificationRemote",
        ];
        let program = [
            &[java.as_str(), "-Xmx256m"],
            &verified[..],
            &["-cp", ".", "Shapes"],
        ]
        .concat();
        let mut command = stage.command(&["-o", "t"], &program);
        let output = command
            .env("PLIMSOLL_TRACE_ALIVE", stage.place.path("alive"))
            .output()
            .unwrap();
        let told = stderr(&output);
        assert!(output.status.success(), "{version}: {told}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            PRINTED,
            "{version}"
        );
        assert!(
            !told.contains("warning") && !told.contains("could not be changed"),
            "{version}: {told}"
        );
        let (seen, counted) = counts(&told);
        assert!(
            seen.abs_diff(counted) <= counted / 1000 + UNSEEN,
            "{version}: {told}"
        );
        let checked: Value = serde_json::from_str(&stage.text(&["verify", "t", "--json"])).unwrap();
        assert_eq!(checked["faults"], 0, "{version}: {checked}");
        let text = stage.text(&["convert", "t"]);
        let objects = objects(&text);
        let alive = std::fs::read_to_string(stage.place.path("alive")).unwrap();
        let alive: BTreeSet<u64> = alive.lines().map(|line| line.parse().unwrap()).collect();
        assert!(objects.len() > 30_000 && alive.len() > 5000);
        let early = objects.iter().filter(|(number, (class, dead))| {
            *dead && is_the_programs(class) && alive.contains(number)
        });
        assert_eq!(
            early.collect::<Vec<_>>(),
            [],
            "{version}: dead, but the machine can reach them"
        );
        let late = objects
            .iter()
            .filter(|(number, (_, dead))| !dead && !alive.contains(number))
            .count();
        assert!(
            late < objects.len() / 1000,
            "{version}: {late} are not dead, but the machine cannot reach them"
        );
        threads_and_waits(&text);
        assert!(!stage.place.path("t.recording").exists());
    }
}

/// The events of the program's second part.
fn threads_and_waits(text: &str) {
    let named = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with("name thread") && line.ends_with(name));
        line.unwrap_or_else(|| panic!("{name}"))
            .split(' ')
            .nth(2)
            .unwrap()
            .to_owned()
    };
    let waiter = named("waiter");
    let has = |thread: &str, event: &str| {
        text.lines()
            .any(|line| line.starts_with(&format!("{thread} {event}")))
    };
    assert!(
        text.contains(&format!("0 start thread={waiter} priority=7")) || has("0", "start peer"),
        "{waiter}"
    );
    for event in [
        "join",
        "notify",
        "sleep time=",
        "park timeout=1000000",
        "unpark",
        "enter",
        "exit",
        "end",
    ] {
        assert!(has("0", event), "{event}");
    }
    assert!(has(&waiter, "wait") && has(&waiter, "end"));
}

#[test]
fn a_lighter_recording_tells_deaths_where_collections_find_them() {
    let Some(stage) = Stage::new() else { return };
    for jdk in recorded() {
        let (java, version) = (jdk.java().display().to_string(), jdk.version);
        let output = stage.record(
            &["--sampled", "-o", "t"],
            &[&java, "-Xmx256m", "-cp", ".", "Lives", "20000"],
        );
        let told = stderr(&output);
        assert!(output.status.success(), "{version}: {told}");
        let (seen, counted) = counts(&told);
        assert!(
            seen.abs_diff(counted) <= counted / 1000 + UNSEEN,
            "{version}: {told}"
        );
        let checked: Value = serde_json::from_str(&stage.text(&["verify", "t", "--json"])).unwrap();
        assert_eq!(checked["faults"], 0, "{version}: {checked}");
        let info: Value = serde_json::from_str(&stage.text(&["info", "t", "--json"])).unwrap();
        assert_eq!(info["deaths"], "at-collections");
        // 50 arrays of 416 bytes live, and what a young generation holds is found later.
        let most = info["largest_live"].as_u64().unwrap();
        assert!((20 << 10..10 << 20).contains(&most), "{version}: {most}");
        assert!(stage.text(&["convert", "t"]).contains(" enter monitor="));
    }
}

#[test]
fn a_recorded_program_is_simulated() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let output = stage.record(
        &["-o", "t"],
        &[&java, "-Xmx256m", "-cp", ".", "Lives", "2000"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    // One thread drops what another one allocated. In another order of threads that comes late, so more may
    // be alive than was when it was recorded.
    let text = stage
        .place
        .text(&["sim", "t", "-c", "genmc", "--heap", "64M"]);
    assert!(text.contains("MQRR"), "{text}");
}

#[test]
fn the_raw_trace_can_be_kept_and_worked_on_later() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let output = stage.record(
        &["--raw", "-o", "raw"],
        &[&java, "-cp", ".", "Lives", "1000"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`plimsoll trace deaths raw -o FILE`"),
        "{}",
        stderr(&output)
    );
    assert!(stage.text(&["info", "raw"]).contains("unknown, raw"));
    let output = stage.place.call(&["trace", "deaths", "raw", "-o", "t"]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    // The raw trace has the counts of the recorder and of the machine.
    let (seen, counted) = counts(&told);
    assert!(seen.abs_diff(counted) <= counted / 1000 + UNSEEN, "{told}");
    for part in ["not in the trace: ", "the program took "] {
        assert!(told.contains(part), "{told}");
    }
    assert!(stage.text(&["verify", "t"]).contains("makes sense"));
}

#[test]
fn programs_are_recorded_under_each_collector() {
    let Some(stage) = Stage::new() else { return };
    let each = [
        (17, "Parallel"),
        (17, "Z"),
        (21, "Shenandoah"),
        (21, "Z"),
        (25, "Z"),
    ];
    for (row, (version, collector)) in each.into_iter().enumerate() {
        let Some(jdk) = recorded().into_iter().find(|jdk| jdk.version == version) else {
            continue;
        };
        let (java, choice) = (
            jdk.java().display().to_string(),
            format!("-XX:+Use{collector}GC"),
        );
        let is_there = std::process::Command::new(&java)
            .args([&choice, "-version"])
            .output();
        if !is_there.is_ok_and(|output| output.status.success()) {
            plimsoll_testbed::skip(format_args!("Java {version} has no {collector} collector"));
            continue;
        }
        let modes = [&["-o", "t"][..], &["--sampled", "-o", "t"]];
        for mode in cases::of_column(modes, row, 2) {
            let program = [
                java.as_str(),
                &choice,
                "-Xmx256m",
                "-cp",
                ".",
                "Lives",
                "20000",
            ];
            let output = stage.record(mode, &program);
            let told = stderr(&output);
            assert!(output.status.success(), "{version} {collector}: {told}");
            let (seen, counted) = counts(&told);
            assert!(
                seen.abs_diff(counted) <= counted / 1000 + UNSEEN,
                "{version} {collector}: {told}"
            );
            let checked = stage.text(&["verify", "t", "--json"]);
            let checked: Value = serde_json::from_str(&checked).unwrap();
            assert_eq!(checked["faults"], 0, "{version} {collector}: {checked}");
            // Such a collector stops before the machine tells of its end.
            let is_poor = mode.len() > 2 && collector != "Parallel";
            let warning = "warning: this collector does not collect young objects often";
            assert_eq!(told.contains(warning), is_poor, "{version}: {told}");
        }
    }
}

/// Before 18 a machine tells of such an array with a product of 32 bits.
#[test]
fn an_array_of_more_than_two_gibibytes_is_in_the_trace() {
    let Some(stage) = Stage::new() else { return };
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let available = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    if kib.is_none_or(|kib| kib < 6 << 20) {
        return skip("less than 6 GiB are free");
    }
    // Java 17 is the last one that does so.
    let Some(jdk) = recorded().into_iter().find(|jdk| jdk.version == 17) else {
        return;
    };
    let (java, length) = (jdk.java().display().to_string(), 290_000_000_u64);
    for mode in [&["-o", "t"][..], &["--sampled", "-o", "t"]] {
        let flags = ["-Xmx3500m", "-Xmn60m", "-XX:+UseParallelGC", "-cp", "."];
        let text = length.to_string();
        let words = [&[java.as_str()], &flags[..], &["Lives", "10", "2", &text]].concat();
        let output = stage.record(mode, &words);
        let told = stderr(&output);
        assert!(output.status.success(), "{told}");
        let (seen, counted) = counts(&told);
        assert!(seen > length * 8, "{told}");
        assert!(seen.abs_diff(counted) <= counted / 1000, "{told}");
        let checked: Value = serde_json::from_str(&stage.text(&["verify", "t", "--json"])).unwrap();
        assert_eq!(checked["bytes_by_machine"], counted, "{checked}");
        assert_eq!(checked["warnings"], serde_json::json!([]), "{checked}");
        assert!(checked["largest_object"].as_u64().unwrap() > length * 8);
    }
}

#[test]
fn what_a_last_collection_finds_dead_is_dead_in_a_lighter_recording() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    // No collection comes before the end.
    let flags = ["-Xmx300m", "-Xmn200m", "-XX:+UseSerialGC", "-cp", "."];
    let words = [&[java.as_str()], &flags[..], &["Lives", "20000"]].concat();
    let output = stage.record(&["--sampled", "-o", "t"], &words);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("collections looked for dead objects"),
        "{told}"
    );
    let checked: Value = serde_json::from_str(&stage.text(&["verify", "t", "--json"])).unwrap();
    assert_eq!(checked["faults"], 0, "{checked}");
    let (all, left) = (&checked["objects"], &checked["immortal_objects"]);
    assert!(
        left.as_u64().unwrap() < all.as_u64().unwrap() / 10,
        "{checked}"
    );
}

#[test]
fn a_tool_of_a_jdk_is_recorded() {
    let Some(stage) = Stage::new() else { return };
    let Some(javac) = recorded()
        .into_iter()
        .map(|it| it.home.join("bin/javac"))
        .find(|it| it.is_file())
    else {
        return skip("no javac");
    };
    stage.place.write("Empty.java", "class Empty {}\n");
    let javac = javac.display().to_string();
    let output = stage.record(
        &["--sampled", "-o", "t"],
        &[&javac, "-proc:none", "Empty.java"],
    );
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(stage.place.path("Empty.class").is_file());
    assert!(counts(&told).0 > 1 << 20, "{told}");
    let info = stage.text(&["info", "t"]);
    assert!(
        info.contains("pauses of the collector") && info.contains(" s\n"),
        "{info}"
    );
}
