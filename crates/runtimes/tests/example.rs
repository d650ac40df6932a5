//! The tests of the worked example of a runtime. The tests of a new runtime look the same: it is found and
//! prepared before the program starts, and found and steered while it runs.

mod support;

use plimsoll_programs::Setting;
use plimsoll_runtimes::adapter::run_among;
use plimsoll_runtimes::example::Example;
use plimsoll_runtimes::launch::{Plan, Prepared, prepare_among};
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{ALL, Ended, Options, Runtimes, family};
use plimsoll_testbed::children::copy_program;
use plimsoll_unit::{Bytes, MIB};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use support::{Script, eventually};

/// The list of runtimes, with the example only.
static KNOWN: Runtimes = Runtimes(&[&Example]);
/// The program has this much memory that it can do without, bytes.
const BALLAST: u64 = 16 * MIB;
/// At each line of its input it reads its limit, gives its ballast up if that is too much, and says the
/// limit.
const SCRIPT: &str = r#"
ballast=$(head -c 16777216 /dev/zero | tr "\0" x)
while read line; do
    limit=none
    [ -e /tmp/plimsoll-example-$$.limit ] && read limit < /tmp/plimsoll-example-$$.limit
    [ $limit = none ] || [ $limit -gt 16777216 ] || ballast=
    echo $limit
done
"#;

/// A copy of the shell with the name by which the example is found, and a script for it.
fn program() -> (tempfile::TempDir, Vec<OsString>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll-example");
    copy_program("/bin/sh", &file).unwrap();
    let argv = vec![file.into(), "-c".into(), SCRIPT.into()];
    (folder, argv)
}

fn prepared(argv: &[OsString], said: Option<&'static str>, budget: Option<&str>) -> Prepared {
    let plan = Plan {
        budget: Some(Bytes::mib(64)),
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

/// A program that runs, and ends when its input is closed.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Starts it, and waits until it is recognised.
    fn start() -> Program {
        let (folder, argv) = program();
        let prepared = prepared(&argv, None, None);
        let mut command = Command::new(&prepared.argv[0]);
        command.args(&prepared.argv[1..]);
        command.envs(prepared.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        eventually("it is recognised", || {
            KNOWN.of_process(pid).name() == "example"
        });
        let output = BufReader::new(child.stdout.take().unwrap());
        Program {
            child,
            output,
            _folder: folder,
        }
    }

    /// The limit that it reads now.
    fn limit(&mut self) -> String {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn uses(&self) -> u64 {
        (family::uses(self.child.id()).unwrap()).0
    }

    fn file(&self) -> PathBuf {
        format!("/tmp/plimsoll-example-{}.limit", self.child.id()).into()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Steers a program by this script.
fn steer(program: &Program, script: &Script) -> JoinHandle<Ended> {
    let (mut link, pid) = (script.clone(), program.child.id());
    std::thread::spawn(move || run_among(KNOWN, &mut link, pid, &Options::default()))
}

#[test]
fn a_command_is_recognised_and_given_what_it_needs() {
    let (_folder, argv) = program();
    let found = prepared(&argv, None, None);
    assert_eq!(
        (found.runtime.name(), found.adapter),
        ("example", Some("example"))
    );
    let variable = ["PLIMSOLL_EXAMPLE_BUDGET", "67108864"].map(OsString::from);
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
fn a_process_follows_its_limit_and_its_file_goes_with_it() {
    let mut program = Program::start();
    let pid = program.child.id();
    assert_eq!(
        ALL.of_process(pid).name(),
        "passive",
        "it is not in the list"
    );
    assert_eq!(program.limit(), "none");
    assert!(program.uses() >= BALLAST);
    let script = Script::default();
    script.limit.store(8 * MIB, Ordering::Relaxed);
    let steering = steer(&program, &script);
    eventually("it is told", || program.limit() != "none");
    let told: u64 = program.limit().parse().unwrap();
    assert!((7 * MIB..8 * MIB).contains(&told), "{told}");
    assert!(program.uses() < 8 * MIB);
    eventually("it reports", || {
        script.report.lock().unwrap().demand == Some(64 * MIB)
    });
    let file = program.file();
    assert!(file.exists());
    program.end();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
    assert!(!file.exists());
}

#[test]
fn it_is_let_go_when_it_is_told_to() {
    let mut program = Program::start();
    let script = Script::default();
    script.limit.store(64 * MIB, Ordering::Relaxed);
    let steering = steer(&program, &script);
    eventually("it is told", || program.limit() != "none");
    script.stop.store(true, Ordering::Relaxed);
    assert_eq!(steering.join().unwrap(), Ended::Stopped);
    assert_eq!(program.limit(), "none");
    assert!(program.uses() >= BALLAST);
    program.end();
}

#[test]
fn the_change_of_a_killed_adapter_is_put_back() {
    let mut program = Program::start();
    std::fs::write(program.file(), "5\n").unwrap();
    assert_eq!(program.limit(), "5");
    let process = Process::new(program.child.id()).unwrap();
    assert_eq!(KNOWN.put_back("example", process, "limit\n"), Some(true));
    assert_eq!(KNOWN.put_back("other", process, "limit\n"), None);
    assert_eq!(program.limit(), "none");
    program.end();
}
