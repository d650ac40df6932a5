//! The same C programs with the system's libgc and with this library: their output, and the way
//! they end, must be equal.
//!
//! The programs are in `tests/c`, one per topic. Each is compiled against the public headers in
//! /usr/include/gc.

#[path = "support/library.rs"]
mod library;

use plimsoll_testbed::skip;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The version that the programs were written against. Another libgc may differ from it as much as
/// this library does.
const VERSION: &str = "8.2";
/// A program takes no more than a few seconds if it has the processors to itself.
const PATIENCE: Duration = Duration::from_secs(120);

/// Declares a test for each program, and lists the programs.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*
    };
}

programs! {
    allocation
    callbacks
    chains
    cpp
    debug
    demand
    disclaim
    early
    environment
    events
    finalizers
    finalizing
    fork
    gcj
    incremental
    inspection
    kinds
    leak_detector
    leaks
    links
    many
    memory
    private
    realloc
    registration
    retention
    roots
    settings
    stacks
    statistics
    suspension
    threads
    toggles
    torture
    typed
    unwinding
}

/// Symbols that the system's library exports and its headers declare, but that no program can refer
/// to; and why.
const NOT_COVERED: &[(&str, &str)] = &[];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

fn temporary() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Why nothing can be compared here; `None` if it can.
fn reason_to_skip() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    REASON.get_or_init(|| find_reason().err()).as_deref()
}

fn find_reason() -> Result<(), String> {
    let source = temporary().join("probe.c");
    let program = temporary().join("probe");
    let text = "#include <stdio.h>\n#include <gc/gc.h>\nint main(void) { unsigned v = GC_get_version(); \
                printf(\"%u.%u.\", v >> 16, v >> 8 & 255); return 0; }\n";
    fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let compiled = Command::new("cc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-lgc")
        .output()
        .map_err(|_| "there is no C compiler (cc)")?;
    if !compiled.status.success() {
        return Err("there is no libgc to compile against (libgc-dev)".to_owned());
    }
    let said = Command::new(&program)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .map_err(|error| error.to_string())?;
    let version = String::from_utf8_lossy(&said.stdout).into_owned();
    if version.starts_with(&format!("{VERSION}.")) {
        Ok(())
    } else {
        Err(format!("the system has libgc {version} and not {VERSION}"))
    }
}

/// Whether to skip the tests; prints the reason.
fn skips() -> bool {
    if let Some(why) = reason_to_skip() {
        skip(why);
    }
    reason_to_skip().is_some()
}

/// A directory with this library under the name that programs look for.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let directory = temporary().join("ours");
        library::link(&directory);
        directory
    })
}

fn run(command: &mut Command) {
    let out = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        out.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Compiles `tests/c/NAME.c` (or `.cc`) to an object file, for one test.
fn object(name: &str, test: &str) -> PathBuf {
    let c = sources().join(format!("{name}.c"));
    let (compiler, standard, source) = if c.exists() {
        ("cc", "-std=gnu11", c)
    } else {
        ("c++", "-std=gnu++14", sources().join(format!("{name}.cc")))
    };
    let object = temporary().join(format!("{name}-{test}.o"));
    run(Command::new(compiler)
        .args([
            standard,
            "-O1",
            "-g",
            "-fPIC",
            "-pthread",
            "-Wall",
            "-Wno-deprecated-declarations",
        ])
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object));
    object
}

/// Compiles a program. If there is a `NAME_plugin.c`, it becomes a shared library beside the
/// program.
fn program(name: &str) -> PathBuf {
    let object = object(name, "run");
    let program = temporary().join(name);
    let linker = if sources().join(format!("{name}.c")).exists() {
        "cc"
    } else {
        "c++"
    };
    run(Command::new(linker)
        .args(["-pthread", "-rdynamic"])
        .arg(&object)
        .arg("-o")
        .arg(&program)
        .args(["-lgc", "-ldl"]));
    let _ = fs::remove_file(object);
    let plugin = sources().join(format!("{name}_plugin.c"));
    if plugin.exists() {
        run(Command::new("cc")
            .args(["-O1", "-g", "-fPIC", "-shared"])
            .arg(plugin)
            .arg("-o")
            .arg(program.with_extension("so")));
    }
    program
}

/// Runs a program with the library in a directory, or with the system's. Returns its output and how
/// it ended.
fn outcome(program: &Path, which: &str, library: Option<&Path>) -> (String, String) {
    let place = |stream: &str| program.with_extension(format!("{which}.{stream}"));
    let file = |stream: &str| {
        File::create(place(stream)).expect("the directory for tests can be written to")
    };
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GC_") {
            command.env_remove(name);
        }
    }
    command
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"));
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let mut child = command.spawn().expect("it was compiled");
    let begin = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break status.to_string();
        }
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            break format!("did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |stream: &str| {
        String::from_utf8_lossy(&fs::read(place(stream)).unwrap_or_default()).into_owned()
    };
    (format!("{}{ended}\n", text("out")), text("err"))
}

fn compare(name: &str) {
    if skips() {
        return;
    }
    let program = program(name);
    let (theirs, their_errors) = outcome(&program, "system", None);
    let (ours, our_errors) = outcome(&program, "ours", Some(library()));
    assert!(
        theirs == ours,
        "{name}: what was printed differs (< system's, > ours)\n{}\n\
         --- the system's, whole\n{theirs}\n--- ours, whole\n{ours}\n\
         --- the system's errors\n{their_errors}\n--- our errors\n{our_errors}",
        difference(&theirs, &ours)
    );
}

/// The lines that differ, compared position by position.
fn difference(theirs: &str, ours: &str) -> String {
    let (mut left, mut right) = (theirs.lines(), ours.lines());
    let mut lines = String::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return lines,
            (left, right) if left == right => {}
            (left, right) => {
                for (sign, line) in [('<', left), ('>', right)] {
                    if let Some(line) = line {
                        lines.push_str(&format!("{sign} {line}\n"));
                    }
                }
            }
        }
    }
}

/// The names in the second or third column of the output of `nm`.
fn symbols(arguments: &[&str], files: &[PathBuf]) -> BTreeSet<String> {
    let out = Command::new("nm")
        .args(arguments)
        .args(files)
        .output()
        .expect("there is nm where there is cc");
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next_back())
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .filter(|name| name.starts_with("GC_"))
        .collect()
}

/// The words of the public headers, outside comments.
fn words_of_headers() -> BTreeSet<String> {
    let headers = fs::read_dir("/usr/include/gc").expect("headers were compiled against");
    let text: String = headers
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    let code: String = text
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, behind)| behind))
        .collect();
    code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .map(str::to_owned)
        .collect()
}

/// The path of the system's library.
fn system_library() -> PathBuf {
    let out = Command::new("ldd")
        .arg(temporary().join("probe"))
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .expect("there is ldd where there is cc");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.contains("libgc.so.1"))
        .expect("the probe needs it");
    PathBuf::from(line.split_whitespace().nth(2).expect("name => path"))
}

#[test]
fn every_public_name_is_in_a_program() {
    if skips() {
        return;
    }
    let exported = symbols(&["-D", "--defined-only"], &[system_library()]);
    let words = words_of_headers();
    let objects: Vec<PathBuf> = PROGRAMS
        .iter()
        .map(|name| object(name, "coverage"))
        .collect();
    let used = symbols(&["-u"], &objects);
    for object in objects {
        let _ = fs::remove_file(object);
    }
    let excused = |name: &str| NOT_COVERED.iter().any(|(other, _)| *other == name);
    let missing: Vec<&String> = exported
        .iter()
        .filter(|name| words.contains(*name) && !used.contains(*name) && !excused(name))
        .collect();
    assert!(
        missing.is_empty(),
        "{} names are in no program: {missing:?}",
        missing.len()
    );
    for (name, why) in NOT_COVERED {
        assert!(
            exported.contains(*name) && !used.contains(*name),
            "{name} is no exception ({why})"
        );
    }
}

#[test]
fn every_program_is_listed() {
    for entry in fs::read_dir(sources()).expect("programs are there") {
        let path = entry.expect("readable").path();
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.extension().is_some_and(|end| end != "h") && !stem.ends_with("_plugin") {
            assert!(
                PROGRAMS.contains(&stem.as_str()),
                "{stem} is not in the list of programs"
            );
        }
    }
}
