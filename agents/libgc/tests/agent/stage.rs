//! A stage for real programs: builds them, gives them a page that a script writes, and watches them
//! from outside.

pub(crate) use plimsoll_testbed::page::{Page, Running};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .expect("agents/libgc lies two levels deep")
}

/// `target/<profile>`: this test's executable lies in `deps` below it.
fn target() -> PathBuf {
    let executable = std::env::current_exe().expect("own path");
    executable
        .ancestors()
        .nth(2)
        .expect("target/profile/deps")
        .to_owned()
}

pub(crate) fn agent() -> PathBuf {
    let built = [
        target().join("libplimsoll_libgc.so"),
        target().join("deps/libplimsoll_libgc.so"),
    ];
    // `cargo build` leaves an older copy in the first place, so the newer one is taken.
    let made = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    built
        .into_iter()
        .max_by_key(made)
        .filter(|path| path.exists())
        .expect("cargo builds the library before its tests")
}

/// Builds the C programs once. `None`, with the reason printed, if no compiler or libgc is
/// installed.
pub(crate) fn gcbench() -> Option<Vec<String>> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let out = target().join("programs");
        let made = Command::new("make")
            .args(["-s", "-C"])
            .arg(repository().join("bench/programs"))
            .arg(format!("OUT={}", out.display()))
            .status();
        if made.is_ok_and(|status| status.success()) {
            return Some(out.join("gcbench"));
        }
        eprintln!("skipped: gcbench cannot be built (install make, a C compiler and libgc-dev)");
        None
    });
    path.as_ref().map(|path| vec![path.display().to_string()])
}

/// `guile churn.scm`. `None`, with the reason printed, if there is no Guile.
pub(crate) fn churn() -> Option<Vec<String>> {
    if Command::new("guile")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: there is no guile (install guile-3.0)");
        return None;
    }
    let script = repository().join("bench/programs/churn.scm");
    Some(vec![
        "guile".into(),
        "--no-auto-compile".into(),
        script.display().to_string(),
    ])
}

/// The program's output, one JSON object per line.
pub(crate) type Lines = Vec<serde_json::Value>;

pub(crate) fn last(lines: &Lines) -> &serde_json::Value {
    lines.last().expect("the program prints something")
}

pub(crate) fn number(line: &serde_json::Value, name: &str) -> u64 {
    line[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {name} in {line}"))
}

pub(crate) fn parse(text: &str) -> Lines {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

/// Runs the program to its end. `setting` is the value of `PLIMSOLL_LIBGC`; without one the adapter
/// is not loaded at all.
pub(crate) fn run(argv: &[String], setting: Option<&str>) -> Lines {
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .env("PLIMSOLL_SOCKET", "/nonexistent/broker.sock");
    if let Some(setting) = setting {
        command
            .env("LD_PRELOAD", agent())
            .env("PLIMSOLL_LIBGC", setting);
    }
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{argv:?} {setting:?}: {output:?}");
    parse(&String::from_utf8(output.stdout).expect("text"))
}

pub(crate) fn with(argv: &[String], more: &[&str]) -> Vec<String> {
    argv.iter()
        .cloned()
        .chain(more.iter().map(|text| (*text).to_owned()))
        .collect()
}

/// Starts a program with the adapter and a page.
pub(crate) fn start(page: &Page, argv: &[String]) -> Running {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).env("LD_PRELOAD", agent());
    page.start(command)
}

/// The program's output so far.
pub(crate) fn lines(program: &Running) -> Lines {
    parse(&program.printed())
}

/// Waits for the program's end, which must be successful, and returns its output.
pub(crate) fn finish(program: Running) -> Lines {
    parse(&program.finish())
}
