//! Files that another user may name are opened in one way.

use super::{is_of_tests, report, rust, shipped_lines};

/// Rooms that look into the processes of others, and at what these name.
const ROOMS: [&str; 5] = [
    "crates/runtimes/src/",
    "crates/map/src/",
    "crates/pin/src/",
    "crates/phases/src/",
    "crates/broker/src/",
];
/// Calls that open by a name.
const OPENS: [&str; 8] = [
    "File::open(",
    "File::options(",
    "OpenOptions::new(",
    "fs::open(",
    "openat(",
    "openat2(",
    "fs::read(",
    "fs::read_to_string(",
];
/// Files with such calls nevertheless, and why that is no name of another user.
const ALLOWED: [(&str, &str); 10] = [
    (
        "crates/programs/src/foreign_files.rs",
        "it names below a root, without opening",
    ),
    (
        "crates/programs/src/hotspot/hsperfdata.rs",
        "a folder, and a name in it without opening",
    ),
    (
        "crates/runtimes/src/hotspot/attach_file.rs",
        "it makes a file that must not be there",
    ),
    (
        "crates/runtimes/src/hotspot/agent/install.rs",
        "our own library, and a folder that we make",
    ),
    (
        "crates/map/src/cached_files.rs",
        "`File` there is a type of its own",
    ),
    (
        "crates/broker/src/config/load.rs",
        "the broker's configuration",
    ),
    ("crates/broker/src/state.rs", "the broker's own folder"),
    (
        "crates/broker/src/publish/page.rs",
        "the broker's own folder",
    ),
    (
        "crates/broker/src/publish/directory.rs",
        "the broker's own folder",
    ),
    (
        "crates/broker/src/server/listener.rs",
        "the broker's own folder",
    ),
];

#[test]
fn what_others_name_is_looked_at_before_it_is_opened() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| name == *allowed);
        if is_of_tests(&name) || is_allowed || !ROOMS.iter().any(|room| name.starts_with(room)) {
            continue;
        }
        for at in opens(&text) {
            faults.push(format!(
                "{name}:{at}: a file is opened by its name: let `mapped::Named` of `kernel` do it"
            ));
        }
    }
    report(&faults);
}

/// The lines that open a file by its name.
fn opens(text: &str) -> Vec<usize> {
    let begins_a_name = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric());
    let has = |line: &str, open: &str| {
        let mut places = line.match_indices(open);
        places.any(|(at, _)| begins_a_name(&line[..at]))
    };
    let opens = |line: &str| OPENS.iter().any(|open| has(line, open));
    let found = shipped_lines(text).filter(|(_, line)| opens(line));
    found.map(|(at, _)| at).collect()
}

#[test]
fn opening_by_a_name_is_found() {
    let text = "// File::open(path)\nlet file = File::open(path)?;\nlet named = Named::at(path)?;\n\
                rustix::fs::openat(&folder, name, flags, mode)\nlet file = named.open()?;\n\
                let perf = PerfFile::open(process);\nfile.read_to_string(&mut text)?;\n";
    assert_eq!(opens(text), [2, 4]);
}
