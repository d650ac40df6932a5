//! The library in processes that it was not made for: it must have no effect there.

use crate::stage::{self, Page, number};
use plimsoll_testbed::skip;
use plimsoll_unit::Bytes;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles one of `tests/programs` with more arguments. `None`, with the reason printed, if there
/// is no compiler.
fn compile(into: &Path, name: &str, more: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(format!("{name}.c"));
    let out = into.join(name);
    let status = Command::new("cc")
        .arg("-O1")
        .arg(source)
        .args(more)
        .arg("-o")
        .arg(&out)
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Some(out);
    }
    eprintln!("skipped: {name}.c cannot be compiled (install a C compiler)");
    None
}

fn run(argv: &[&str], preload: bool) -> serde_json::Value {
    let page = Page::new(Bytes(100 * plimsoll_unit::MB));
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]);
    if preload {
        command
            .env("LD_PRELOAD", stage::agent())
            .env("PLIMSOLL_PAGE", page.path());
    }
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{argv:?}: {output:?}");
    stage::parse(&String::from_utf8_lossy(&output.stdout)).remove(0)
}

#[test]
fn a_program_without_libgc_notices_nothing() {
    let page = Page::new(Bytes(100 * plimsoll_unit::MB));
    let script = "grep Threads /proc/self/status; echo $0; ls / | sort; exit 3";
    let run = |preload: bool| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        if preload {
            command.env("LD_PRELOAD", stage::agent());
            command
                .env("PLIMSOLL_PAGE", page.path())
                .env("PLIMSOLL_ID", "1");
        }
        let output = command.output().expect("sh starts");
        (output.status.code(), output.stdout, output.stderr)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn another_library_with_some_of_the_names_gets_its_calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(library) = compile(directory.path(), "partial", &["-shared", "-fPIC"]) else {
        return;
    };
    let linked = library.display().to_string();
    let Some(program) = compile(directory.path(), "uses_partial", &[&linked]) else {
        return;
    };
    let program = program.display().to_string();
    for preload in [false, true] {
        let told = run(&[&program], preload);
        assert_eq!(
            (number(&told, "inits"), number(&told, "divisor")),
            (1, 7),
            "{preload}"
        );
    }
}

#[test]
fn a_plugin_with_a_libgc_of_its_own_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "plugin", &["-ldl"]) else {
        return;
    };
    let program = program.display().to_string();
    for preload in [false, true] {
        let told = run(&[&program, "300000"], preload);
        assert!(number(&told, "collections") > 0, "{told}");
    }
}

#[test]
fn a_program_with_more_rights_than_who_starts_it_is_left_alone() {
    /// A group other than root's.
    const GROUP: u32 = 65_534;
    let directory = tempfile::tempdir().expect("a directory");
    let agent = stage::agent().display().to_string();
    let Some(program) = compile(directory.path(), "secure", &[&agent, "-lgc"]) else {
        return;
    };
    let page = Page::new(Bytes(100 * plimsoll_unit::MB));
    let run = || {
        let mut command = Command::new(&program);
        command
            .env("PLIMSOLL_PAGE", page.path())
            // libgc's own marker threads would count.
            .env("GC_MARKERS", "1");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        stage::parse(&String::from_utf8_lossy(&output.stdout)).remove(0)
    };
    let ordinary = run();
    assert_eq!(number(&ordinary, "threads"), 2, "the adapter's");
    let set_group_id = Permissions::from_mode(0o2755);
    if chown(&program, None, Some(GROUP)).is_err()
        || set_permissions(&program, set_group_id).is_err()
    {
        return skip("files cannot be given to another group here");
    }
    let secure = run();
    if number(&secure, "secure") == 0 {
        return skip("the file system takes no notice of set-group-ID");
    }
    assert_eq!(number(&secure, "threads"), 1);
}
