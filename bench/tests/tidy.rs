//! Holds the project to its own rules: floors, sizes, maps, constants, what reads `/proc`, paths, links,
//! unfinished work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which floor a room is on; it imports only from floors below (docs/src/design.md).
const FLOORS: [(&str, u32); 20] = [
    ("plimsoll-policy", 0),
    ("plimsoll-kernel", 0),
    ("plimsoll-wire", 0),
    ("plimsoll-trace", 0),
    ("plimsoll-core", 1),
    ("plimsoll-client", 1),
    ("plimsoll-heap", 1),
    ("plimsoll-map", 1),
    ("plimsoll-pin", 1),
    ("plimsoll-c", 2),
    ("plimsoll-sim", 2),
    ("plimsoll-broker", 2),
    ("plimsoll-runtimes", 2),
    ("plimsoll-phases", 2),
    ("plimsoll-agent-jvm", 2),
    ("plimsoll-agent-libgc", 2),
    ("plimsoll-agent-tracer", 2),
    ("plimsoll-libgc", 2),
    ("plimsoll-mmtk", 2),
    ("plimsoll-cli", 3),
];
/// The most lines of a source file. A longer one has two subjects.
const LONGEST_FILE: usize = 600;
/// The most lines of a function. A longer one does two things.
const LONGEST_FUNCTION: usize = 70;
/// The most characters of a line of Rust, which is read side by side and in terminals.
const WIDEST: usize = 110;

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
    let floors: BTreeMap<&str, u32> = FLOORS.into();
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

#[test]
fn files_fit_in_the_head() {
    let long = |(name, text): &(String, String)| {
        let lines = text.lines().count();
        let source = [".rs", ".c", ".h", ".java", ".scm", ".sh"]
            .iter()
            .any(|end| name.ends_with(end));
        (source && lines > LONGEST_FILE).then(|| {
            format!(
                "{name} has {lines} lines, more than {LONGEST_FILE}: is there a second room inside?"
            )
        })
    };
    report(&tracked().iter().filter_map(long).collect::<Vec<_>>());
}

/// The files of Rust.
fn rust() -> Vec<(String, String)> {
    let mut files = tracked();
    files.retain(|(name, _)| name.ends_with(".rs"));
    files
}

#[test]
fn lines_fit_side_by_side() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            if width > WIDEST {
                let at = index + 1;
                faults.push(format!(
                    "{name}:{at}: {width} characters, more than {WIDEST}"
                ));
            }
        }
    }
    report(&faults);
}

#[test]
fn functions_do_one_thing() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| is_function(line))
        {
            let length = function_length(&lines[index..]);
            if length > LONGEST_FUNCTION {
                let (at, line) = (index + 1, line.trim());
                faults.push(format!(
                    "{name}:{at}: {length} lines, more than {LONGEST_FUNCTION}: {line}"
                ));
            }
        }
    }
    report(&faults);
}

/// Whether a function begins on a line.
fn is_function(line: &str) -> bool {
    let qualifies = |word: &&str| {
        ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(word)
            || word.starts_with("pub(")
    };
    line.split_whitespace().find(|word| !qualifies(word)) == Some("fn")
}

/// Lines of the function that begins on the first: until the brace that closes it, which formatted code has
/// in the same column.
fn function_length(lines: &[&str]) -> usize {
    let column = lines[0].len() - lines[0].trim_start().len();
    if lines[0].ends_with(['}', ';']) {
        return 1;
    }
    let ends = |line: &&str| match line.get(column..) {
        Some("}") => line.trim() == "}",
        Some(rest) => rest.starts_with(')') && rest.ends_with(';'),
        None => false,
    };
    lines
        .iter()
        .skip(1)
        .position(ends)
        .map_or(1, |last| last + 2)
}

#[test]
fn functions_are_measured() {
    let text = "    pub(crate) unsafe fn long(\n        of: u8,\n    ) {\n        {\n        }\n    }\n}\n";
    let lines: Vec<&str> = text.lines().collect();
    assert!(is_function(lines[0]) && !is_function("// fn"));
    assert_eq!(function_length(&lines), 6);
    assert_eq!(function_length(&["fn declared();", "}"]), 1);
}

#[test]
fn maps_name_every_module() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        let head: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("//!"))
            .collect();
        let head = head.join("\n");
        let mapped = head.contains("# Map") || head.contains("Rooms inside");
        if !mapped && !name.ends_with("/src/lib.rs") {
            continue;
        }
        for module in modules(&text) {
            if ["`", "::"]
                .iter()
                .all(|end| !head.contains(&format!("`{module}{end}")))
            {
                faults.push(format!("{name}: the head does not say what `{module}` is"));
            }
        }
    }
    report(&faults);
}

/// The modules that a file declares, but for those of tests and of features.
fn modules(text: &str) -> Vec<&str> {
    let mut modules = Vec::new();
    let mut conditional = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            conditional |= line.starts_with("#[cfg(");
            continue;
        }
        let declared = line.split_once("mod ").filter(|(before, _)| {
            before.is_empty() || before.starts_with("pub ") || before.starts_with("pub(")
        });
        let module = declared.and_then(|(_, rest)| rest.strip_suffix(';'));
        modules.extend(module.filter(|_| !conditional));
        conditional = false;
    }
    modules
}

/// A number with a name, at the outermost level of a file.
struct Constant<'a> {
    at: String,
    /// Its type and its value.
    means: (&'a str, &'a str),
    /// A comment stands above it, or above the constants that it stands among.
    said: bool,
}

#[test]
fn constants_of_one_name_say_what_each_is() {
    let files = rust();
    let mut by_name: BTreeMap<&str, Vec<Constant>> = BTreeMap::new();
    for (name, text) in &files {
        let tests = name.contains("/tests/") || name.ends_with("/tests.rs");
        if !tests && !name.contains("/examples/") {
            for (constant, found) in constants(name, text) {
                by_name.entry(constant).or_default().push(found);
            }
        }
    }
    let mut faults = Vec::new();
    for (name, all) in by_name {
        if all.iter().all(|constant| constant.means == all[0].means) {
            continue;
        }
        for constant in all.iter().filter(|constant| !constant.said) {
            let at = &constant.at;
            faults.push(format!(
                "{at}: another {name} is something else: say above this one what it is, in which unit"
            ));
        }
    }
    report(&faults);
}

/// The numbers with names of a file, but for those of its tests.
fn constants<'a>(file: &str, text: &'a str) -> Vec<(&'a str, Constant<'a>)> {
    const NUMBERS: [&str; 16] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64", "Duration", "Nanos",
    ];
    let mut found = Vec::new();
    let mut said = false;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| next.trim());
        if line == "#[cfg(test)]" && next.ends_with('{') {
            break;
        }
        if line.starts_with("///") || line.is_empty() {
            said = !line.is_empty();
            continue;
        }
        let declared = line
            .split_once("const ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
            .and_then(|(_, rest)| rest.split_once(": "));
        let Some((name, (kind, value))) =
            declared.and_then(|(name, rest)| Some((name, rest.split_once(" =")?)))
        else {
            continue;
        };
        if NUMBERS.contains(&kind) || kind.ends_with("c_int") {
            let value = if value.is_empty() { next } else { value.trim() };
            let constant = Constant {
                at: format!("{file}:{}", index + 1),
                means: (kind, value),
                said,
            };
            found.push((name, constant));
        }
    }
    found
}

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
    [("crates/map/src/sight.rs", "smaps", "an error names it")];

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
        if name.ends_with(".lock") || name.ends_with("tidy.rs") || name.starts_with("LICENSE") {
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
    let definitions = tracked()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/cli/src/args"));
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
