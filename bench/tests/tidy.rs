//! Holds the project to its own rules. Here: floors, paths, links, flags, unfinished work, fuzz targets.
//! [`circles`]: modules that import one another; [`order`]: of modules inside rooms; [`sizes`]: of files,
//! lines and functions; [`names`]: maps, constants and units; [`proc`]: what reads `/proc`; [`opens`]: what
//! opens files that others name; [`words`]: sentences that a reader has to take apart, in the [`prose`] of
//! all files.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/opens.rs"]
mod opens;
#[path = "tidy/order.rs"]
mod order;
#[path = "tidy/proc.rs"]
mod proc;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which floor a room is on; it imports only from floors below (docs/src/design.md).
const FLOORS: &[(&str, u32)] = &[
    ("plimsoll-unit", 0),
    ("plimsoll-policy", 1),
    ("plimsoll-kernel", 1),
    ("plimsoll-wire", 1),
    ("plimsoll-trace", 1),
    ("plimsoll-picture", 1),
    ("plimsoll-programs", 2),
    ("plimsoll-decide", 2),
    ("plimsoll-client", 2),
    ("plimsoll-heap", 2),
    ("plimsoll-map", 3),
    ("plimsoll-pin", 2),
    ("plimsoll-c", 3),
    ("plimsoll-collector", 3),
    ("plimsoll-sim", 3),
    ("plimsoll-broker", 3),
    ("plimsoll-runtimes", 3),
    ("plimsoll-phases", 4),
    ("plimsoll-agent-jvm", 3),
    ("plimsoll-agent-libgc", 3),
    ("plimsoll-agent-tracer", 3),
    ("plimsoll-mmtk", 3),
    ("plimsoll-libgc", 4),
    ("plimsoll-cli", 5),
    ("plimsoll-lab", 6),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is inside the checkout")
        .to_owned()
}

/// The files that git tracks, with their text; binary ones are left out.
fn tracked() -> Vec<(String, String)> {
    let out = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["ls-files", "-z"])
        .output()
        .expect("git lists files");
    let names = String::from_utf8_lossy(&out.stdout).into_owned();
    let read = |name: &str| {
        Some((
            name.to_owned(),
            std::fs::read_to_string(root().join(name)).ok()?,
        ))
    };
    let files: Vec<_> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .filter_map(read)
        .collect();
    assert!(files.len() > 20, "git lists the files of this checkout");
    files
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn rooms_import_only_from_floors_below() {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let mut faults = Vec::new();
    for (name, text) in tracked()
        .iter()
        .filter(|(name, _)| name.ends_with("Cargo.toml"))
    {
        let manifest: toml::Table = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(room) = manifest.get("package").and_then(|p| p["name"].as_str()) else {
            continue;
        };
        let Some(floor) = floors.get(room) else {
            continue;
        };
        let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table)
        else {
            continue;
        };
        for dependency in dependencies.keys().filter(|d| d.starts_with("plimsoll-")) {
            match floors.get(dependency.as_str()) {
                Some(below) if below < floor => {}
                _ => faults.push(format!(
                    "{name}: {room} (floor {floor}) imports {dependency}, which is not below it"
                )),
            }
        }
    }
    report(&faults);
}

/// The exported names of the drop-in stand in one folder, and the collector below it knows none of them.
#[test]
fn the_interface_of_libgc_stands_in_one_folder() {
    let rules = [
        ("crates/libgc/src/", "crates/libgc/src/abi/", "no_mangle"),
        ("crates/collector/", "", "GC_"),
    ];
    let mut faults = Vec::new();
    for (name, text) in rust() {
        for (room, folder, word) in rules {
            let outside = folder.is_empty() || !name.starts_with(folder);
            if name.starts_with(room) && outside && text.contains(word) {
                faults.push(format!(
                    "{name}: `{word}` belongs into crates/libgc/src/abi"
                ));
            }
        }
    }
    report(&faults);
}

#[test]
fn every_room_is_in_the_table_and_has_invariants() {
    let page =
        |name: &str| std::fs::read_to_string(root().join("docs/src").join(name)).expect(name);
    let (house, invariants) = (page("design.md"), page("architecture.md"));
    let mut faults = Vec::new();
    for (name, floor) in FLOORS {
        let room = name.strip_prefix("plimsoll-").unwrap_or(name);
        let (path, short) = match room.strip_prefix("agent-") {
            Some(agent) => (format!("agents/{agent}"), format!("agents/{agent}")),
            None if room == "c" => ("clients/c".to_owned(), "clients/c".to_owned()),
            None => (format!("crates/{room}"), room.to_owned()),
        };
        if !house.contains(&format!("| {floor} | `{path}` |")) {
            faults.push(format!(
                "docs/src/design.md: `{path}` is not on floor {floor}"
            ));
        }
        if !invariants.contains(&format!("| `{short}` |")) {
            faults.push(format!(
                "docs/src/architecture.md: `{short}` has no invariants"
            ));
        }
    }
    report(&faults);
}

/// The suite of a test, as `tools/lane.sh` names it.
fn suite(name: &str) -> Option<String> {
    let (package, test) = name.split_once("/tests/")?;
    let package = package.rsplit('/').next()?;
    let test = test.split(['/', '.']).next()?;
    Some(format!("{package}/{test}"))
}

/// Tests that run a part of their cases run all of them in a lane of their own.
#[test]
fn every_case_is_run_somewhere() {
    let lanes = std::fs::read_to_string(root().join("tools/lane.sh")).expect("it is tracked");
    let (_, lane) = lanes
        .split_once("\n  every-case)\n")
        .expect("the lane of all cases");
    let (lane, _) = lane.split_once("esac").expect("a list of suites");
    let listed: Vec<&str> = lane
        .split(|letter: char| letter.is_whitespace() || "|)".contains(letter))
        .collect();
    let mut faults = Vec::new();
    for (name, text) in rust()
        .iter()
        .filter(|(name, _)| !name.starts_with("bench/tests"))
    {
        let runs_a_part = text.contains("cases::of_column") || text.contains("cases::is_run");
        let Some(suite) = suite(name).filter(|_| runs_a_part) else {
            continue;
        };
        if !listed.contains(&suite.as_str()) {
            faults.push(format!(
                "{name} runs a part of its cases: add {suite} to the lane every-case of tools/lane.sh"
            ));
        }
    }
    report(&faults);
}

/// The files of Rust.
fn rust() -> Vec<(String, String)> {
    let mut files = tracked();
    files.retain(|(name, _)| name.ends_with(".rs"));
    files
}

/// Whether a file holds nothing but tests and examples.
fn is_of_tests(name: &str) -> bool {
    ["/tests/", "/examples/", "/benches/"]
        .iter()
        .any(|part| name.contains(part))
        || ["/tests.rs", "_tests.rs"]
            .iter()
            .any(|end| name.ends_with(end))
}

/// The lines before a file's tests, with their numbers, without comments.
fn shipped_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].trim().ends_with('{');
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    let lines = lines.into_iter().take(end).enumerate();
    lines
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn nothing_unfinished_and_no_path_of_one_machine() {
    let marks: Vec<String> = [
        ["to", "do!("],
        ["unimple", "mented!("],
        ["TO", "DO"],
        ["FIX", "ME"],
        ["#[ig", "nore"],
    ]
    .map(|halves| halves.concat())
    .into();
    let paths = ["root", "home"].map(|folder| format!("/{folder}/"));
    let here = format!("{}/", root().display());
    let mut faults = Vec::new();
    for (name, text) in tracked() {
        if name.ends_with(".lock")
            || name.starts_with("bench/tests/tidy")
            || name.starts_with("LICENSE")
        {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(mark.as_str())) {
                faults.push(format!("{name}:{}: `{mark}`: finish it", index + 1));
            }
            if paths.iter().any(|path| line.contains(path.as_str())) || line.contains(&here) {
                faults.push(format!("{name}:{}: a path of one machine", index + 1));
            }
        }
    }
    report(&faults);
}

#[test]
fn links_in_the_docs_resolve() {
    let mut faults = Vec::new();
    for (name, text) in tracked().iter().filter(|(name, _)| name.ends_with(".md")) {
        let folder = root()
            .join(name)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        for target in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !folder.join(file).exists() {
                faults.push(format!("{name}: link to {target}, which is not there"));
            }
        }
    }
    report(&faults);
}

/// Files that a page makes up: its reader writes them, or a command does.
const MADE_UP: [&str; 3] = ["NAME", "bench/out/", "bench/src/measurements/start.rs"];

#[test]
fn files_that_the_docs_name_are_there() {
    let folders = [
        "agents",
        "bench",
        "clients",
        "crates",
        "docs",
        "fuzz",
        "packaging",
        "tools",
    ];
    let is_path = |word: &str| {
        let first = word.split_once('/').map(|(first, _)| first);
        first.is_some_and(|first| folders.contains(&first))
            && word
                .chars()
                .all(|letter| letter.is_alphanumeric() || "_./-".contains(letter))
    };
    let mut faults = Vec::new();
    for (name, text) in tracked().iter().filter(|(name, _)| name.ends_with(".md")) {
        let quoted = text
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2));
        for path in quoted.filter(|word| is_path(word)) {
            if !MADE_UP.iter().any(|part| path.contains(part)) && !root().join(path).exists() {
                faults.push(format!("{name}: {path} is not there"));
            }
        }
    }
    report(&faults);
}

/// The targets of `[text](target)`, `![text](target)` and mdBook's `{{#include target}}`.
fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (open, close) in [("](", ')'), ("{{#include ", '}')] {
        for piece in text.split(open).skip(1) {
            if let Some((target, _)) = piece.split_once(close) {
                targets.push(target.trim().to_owned());
            }
        }
    }
    targets.retain(|target| !target.contains(' ') && !target.contains('`'));
    targets
}

#[test]
fn every_flag_is_in_the_reference() {
    let commands = root().join("docs/src/commands.md");
    let reference = std::fs::read_to_string(&commands).expect("docs/src/commands.md is there");
    let definitions = tracked().into_iter().filter(|(name, _)| {
        name.starts_with("crates/cli/src/args") || name.starts_with("crates/lab/src/args")
    });
    let mut faults = Vec::new();
    for (name, text) in definitions {
        for flag in flags(&text) {
            if !reference.contains(&format!("--{flag}")) {
                faults.push(format!("{name}: --{flag} is not in docs/src/commands.md"));
            }
        }
    }
    report(&faults);
}

/// The long flags that clap's attributes declare: `#[arg(… long …)] pub name:`.
fn flags(text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    let mut long = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[arg(") {
            long = line.contains("long") && !line.contains("hide = true");
        } else if let Some(field) = line.strip_prefix("pub ").filter(|_| long) {
            let name = field.split(':').next().unwrap_or_default();
            flags.push(name.trim_start_matches("r#").replace('_', "-"));
            long = false;
        }
    }
    flags
}

#[test]
fn every_fuzz_target_is_built_and_run() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let manifest: toml::Table = text("fuzz/Cargo.toml").parse().expect("it is a manifest");
    let built: Vec<&str> = manifest["bin"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|bin| bin["path"].as_str())
        .collect();
    let script = text("fuzz/run.sh");
    let names = script.split_once("names=(").map(|(_, rest)| rest);
    let names = names
        .and_then(|rest| rest.split_once(')'))
        .map(|(names, _)| names);
    let run: Vec<&str> = names.unwrap_or_default().split_whitespace().collect();
    let mut faults = Vec::new();
    for (path, _) in tracked() {
        let file = path
            .strip_prefix("fuzz/targets/")
            .filter(|file| !file.contains('/'));
        let Some(name) = file.and_then(|file| file.strip_suffix(".rs")) else {
            continue;
        };
        if !built.contains(&&*format!("targets/{name}.rs")) {
            faults.push(format!("{path} is not in fuzz/Cargo.toml"));
        }
        if !run.contains(&name) {
            faults.push(format!("{path} is not run by fuzz/run.sh"));
        }
    }
    assert!(run.len() > 10, "fuzz/run.sh has a list of names: {run:?}");
    report(&faults);
}
