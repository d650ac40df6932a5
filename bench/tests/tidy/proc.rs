//! Files of `/proc` are read in one place.

use super::{is_of_tests, report, rust, shipped_lines};

/// Where paths below `/proc` may stand, and why.
const READS_PROC: [(&str, &str); 4] = [
    ("crates/kernel/", "what `/proc` tells stands there once"),
    (
        "crates/testbed/",
        "it serves tests, which check `kernel` by what they read themselves",
    ),
    (
        "bench/",
        "it measures the broker by other means than the broker's own",
    ),
    (
        "fuzz/",
        "it is outside of the workspace, and gives parsers made-up texts",
    ),
];

/// Files of `/proc/PID` that `kernel` has functions for.
const FILES_OF_A_PROCESS: [&str; 11] = [
    "maps",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "cmdline",
    "environ",
    "comm",
    "task",
    "pagemap",
];
/// Which file of a process is named elsewhere, and why.
const NAMES_A_FILE: [(&str, &str, &str); 1] =
    [("crates/map/src/snapshot.rs", "smaps", "an error names it")];

#[test]
fn only_the_kernels_room_reads_proc() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        if is_of_tests(&name) || READS_PROC.iter().any(|(room, _)| name.starts_with(room)) {
            continue;
        }
        for at in names_proc(&text) {
            faults.push(format!(
                "{name}:{at}: a path below /proc: let a function of `kernel` read it"
            ));
        }
        for (at, file) in names_a_file(&text) {
            let allowed = |(where_, what, _): &(&str, &str, &str)| name == *where_ && file == *what;
            if !NAMES_A_FILE.iter().any(allowed) {
                faults.push(format!(
                    "{name}:{at}: `{file}` of a process: let a function of `kernel` read it"
                ));
            }
        }
    }
    report(&faults);
}

/// The lines on which a text in quotes begins with `/proc`.
fn names_proc(text: &str) -> Vec<usize> {
    let begins = ["\"/proc\"", "\"/proc/"];
    let names = |line: &str| begins.iter().any(|begin| line.contains(begin));
    let found = shipped_lines(text).filter(|(_, line)| names(line));
    found.map(|(at, _)| at).collect()
}

/// The lines that make the path of one of [`FILES_OF_A_PROCESS`] (`process.path("stat")`), and which.
fn names_a_file(text: &str) -> Vec<(usize, &'static str)> {
    let named = |line: &str| {
        let (_, argument) = line.split_once("path(")?;
        let is = |file: &&&str| argument.contains(&format!("\"{file}\")"));
        FILES_OF_A_PROCESS.iter().find(is).copied()
    };
    let found = shipped_lines(text).filter_map(|(at, line)| Some((at, named(line)?)));
    found.collect()
}

#[test]
fn paths_below_proc_are_found() {
    let text = "/// `\"/proc/x\"`\nlet path = c\"/proc/self/maps\";\n\
                say(\"/processors\", \"is /proc mounted?\");\n\
                Path::new(\"/proc\")\n#[cfg(test)]\nmod tests {\n    \"/proc/self\"\n}\n";
    assert_eq!(names_proc(text), [2, 4]);
    let text = "// process.path(\"maps\")\nlet text = read(process.path(\"smaps\"));\n\
                let own = proc_path(pid, \"stat\");\nlet root = process.path(\"root\");\n\
                let name = thread.path().join(\"comm\");\nlet place = \"maps\";\n";
    assert_eq!(names_a_file(text), [(2, "smaps"), (3, "stat"), (5, "comm")]);
    let tests = [
        "crates/x/tests/a.rs",
        "crates/x/src/a/tests.rs",
        "crates/x/src/a_tests.rs",
    ];
    assert!(tests.iter().all(|name| is_of_tests(name)) && !is_of_tests("crates/x/src/a.rs"));
}
