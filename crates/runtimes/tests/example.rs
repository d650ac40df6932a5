//! The tests of the worked example of a runtime. The tests of a new runtime look the same: it is found and
//! prepared before the program starts, and found and steered while it runs.

mod support;

use plimsoll_programs::Setting;
use plimsoll_runtimes::adapter::run_among;
use plimsoll_runtimes::example::Example;
use plimsoll_runtimes::launch::{Plan, Prepared, prepare_among};
use plimsoll_runtimes::{ALL, Ended, Options, Runtime, Runtimes};
use plimsoll_testbed::children::copy_program;
use plimsoll_unit::MIB;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use support::{Script, eventually};

/// The list of runtimes, with the example only.
static KNOWN: Runtimes = Runtimes(&[&Example]);
/// A copy of the shell with the name by which the example is found.
fn program() -> (tempfile::TempDir, Vec<OsString>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll-example");
    copy_program("/bin/sh", &file).unwrap();
    let argv = vec![file.into(), "-c".into(), "read line; :".into()];
    (folder, argv)
}

fn prepared(argv: &[OsString], said: Option<&'static str>, budget: Option<&str>) -> Prepared {
    let plan = Plan {
        budget: Some(7 * MIB),
        said,
        ..Plan::default()
    };
    let setting = Setting {
        variables: &|name: &str| {
            let given = budget.filter(|_| name == "PLIMSOLL_EXAMPLE_BUDGET");
            given.map(OsString::from)
        },
        folder: Path::new(""),
    };
    prepare_among(KNOWN, argv, &plan, &setting)
}

/// Starts a program that ends when its input is closed.
fn start(prepared: &Prepared) -> Child {
    let mut command = Command::new(&prepared.argv[0]);
    command.args(&prepared.argv[1..]);
    command.envs(prepared.environment.iter().cloned());
    command.stdin(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_command_is_recognised_and_given_what_it_needs() {
    let (_folder, argv) = program();
    let found = prepared(&argv, None, None);
    assert_eq!(
        (found.runtime.name(), found.adapter),
        ("example", Some("example"))
    );
    let variable = ["PLIMSOLL_EXAMPLE_BUDGET", "7340032"].map(OsString::from);
    assert_eq!(found.environment, [variable.into()]);
    assert!(found.argv == argv && found.notes.len() == 1);
    // The user's setting takes precedence.
    let given = prepared(&argv, None, Some("5"));
    assert!(given.environment.is_empty() && given.notes.is_empty());
}

#[test]
fn what_a_script_starts_is_prepared_when_it_is_said() {
    let script = ["sh", "start.sh"].map(OsString::from);
    let found = prepared(&script, None, None);
    assert_eq!((found.runtime.name(), found.adapter), ("passive", None));
    let said = prepared(&script, Some("example"), None);
    assert_eq!(
        (said.runtime.name(), said.adapter),
        ("passive", Some("example"))
    );
    assert_eq!(said.environment.len(), 1);
}

#[test]
fn a_process_is_recognised_and_steered_until_its_end() {
    let (_folder, argv) = program();
    let mut child = start(&prepared(&argv, None, None));
    let pid = child.id();
    eventually("it is recognised", || {
        KNOWN.of_process(pid).name() == "example"
    });
    assert_eq!(
        ALL.of_process(pid).name(),
        "passive",
        "it is not in the list"
    );
    let script = Script::default();
    script.limit.store(64 * MIB, Ordering::Relaxed);
    let mut link = script.clone();
    let steering =
        std::thread::spawn(move || run_among(KNOWN, &mut link, pid, &Options::default()));
    eventually("it reports", || {
        let demand = script.report.lock().unwrap().demand;
        demand.is_some_and(|bytes| bytes > 0 && bytes < 64 * MIB)
    });
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn it_is_let_go_when_it_is_told_to() {
    let (_folder, argv) = program();
    let mut child = start(&prepared(&argv, None, None));
    let pid = child.id();
    eventually("it is recognised", || {
        KNOWN.of_process(pid).name() == "example"
    });
    let script = Script::default();
    script.stop.store(true, Ordering::Relaxed);
    let ended = run_among(KNOWN, &mut script.clone(), pid, &Options::default());
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(ended, Ended::Stopped);
    assert_eq!(Example.adapter(), Some("example"));
}
