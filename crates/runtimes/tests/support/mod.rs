//! Java virtual machines to test with, and a link that follows a script. Not every test needs all of it.

#![allow(dead_code)]

use plimsoll_programs::hotspot::hsperfdata::PerfFile;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{Link, family};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a busy computer. On an idle one these waits take a second or two.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// The JDKs of the versions that are supported.
pub(crate) fn jdks() -> Vec<(u32, PathBuf)> {
    let all = plimsoll_testbed::java::jdks().into_iter();
    all.map(|jdk| (jdk.version, jdk.home)).collect()
}

/// A directory with a compiled program of ours, readable for any user and in any mount namespace.
pub(crate) fn compiled(program: &str) -> tempfile::TempDir {
    let dir = tempfile::Builder::new()
        .prefix("plimsoll-test-")
        .tempdir_in("/var/tmp")
        .unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/java")
        .join(program);
    let compiled = plimsoll_testbed::java::compile_into(dir.path(), &[source]);
    assert!(compiled, "there is a JDK, and none with javac");
    dir
}

/// A program that ends with its guard.
pub(crate) struct Program {
    pub(crate) child: Child,
    classes: tempfile::TempDir,
}

/// Where a program's standard output goes, beside its classes.
const OUTPUT: &str = "output";

impl Program {
    pub(crate) fn start(home: &Path, before: &[&str], flags: &[&str], churn: &[&str]) -> Program {
        let classes = compiled("Churn.java");
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        argv.extend(flags.iter().map(OsString::from));
        argv.extend(["-cp".into(), classes.path().into(), "Churn".into()]);
        argv.extend(churn.iter().map(OsString::from));
        Program::run(before, argv, classes)
    }

    /// As `plimsoll run` would start it.
    pub(crate) fn prepared(home: &Path, flags: &[&str], churn: &[&str]) -> Program {
        let classes = compiled("Churn.java");
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        argv.extend(flags.iter().map(OsString::from));
        argv.extend(["-cp".into(), classes.path().into(), "Churn".into()]);
        argv.extend(churn.iter().map(OsString::from));
        let prepared = launch::prepare(
            &argv,
            &Plan {
                budget: Some(Bytes::mib(1024)),
                ..Plan::default()
            },
        );
        assert_eq!(prepared.runtime.name(), "hotspot");
        Program::run(&[], prepared.argv, classes)
    }

    pub(crate) fn run(before: &[&str], argv: Vec<OsString>, classes: tempfile::TempDir) -> Program {
        let all: Vec<OsString> = before.iter().map(OsString::from).chain(argv).collect();
        let output = std::fs::File::create(classes.path().join(OUTPUT)).unwrap();
        let child = Command::new(&all[0])
            .args(&all[1..])
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The socket of a killed machine with the same number would be in the way of another user's machine.
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", child.id()));
        Program { child, classes }
    }

    /// Its output so far.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(self.classes.path().join(OUTPUT)).unwrap()
    }

    /// The machine, as soon as it catches SIGQUIT.
    pub(crate) fn machine(&self) -> Process {
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            for pid in family::of(self.child.id()) {
                let Ok(process) = Process::new(pid) else {
                    continue;
                };
                let ready = process.status().is_ok_and(|s| s.caught & 4 != 0);
                if ready && plimsoll_programs::hotspot::is_machine(&process) {
                    return process;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the Java virtual machine did not start");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let family = family::of(self.child.id());
        for &pid in &family {
            if let Ok(process) = Process::new(pid) {
                let _ = process.signal(Signal::KILL);
            }
        }
        // A machine that is killed leaves its socket. Another user's machine that gets the same number later
        // could not remove it, and could not be reached.
        for pid in family {
            let _ = std::fs::remove_file(format!("/tmp/.java_pid{pid}"));
        }
        let _ = self.child.wait();
    }
}

#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) limit: Arc<AtomicU64>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) report: Arc<Mutex<Report>>,
    /// Why the program was not steered, once for each time that the adapter said so.
    pub(crate) why: Arc<Mutex<Vec<String>>>,
}

impl Link for Script {
    fn numbers(&mut self) -> Option<Numbers> {
        Some(Numbers {
            limit: self.limit.load(Ordering::Relaxed),
            ..Numbers::default()
        })
    }

    fn wait(&mut self, timeout: Duration) {
        std::thread::sleep(timeout.min(Duration::from_millis(50)));
    }

    fn report(&mut self, report: &Report) {
        *self.report.lock().unwrap() = *report;
    }

    fn released(&mut self, _: Bytes) {}

    fn not_steered(&mut self, why: &str) {
        self.why.lock().unwrap().push(why.to_owned());
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The counters of a machine, as soon as they are there.
///
/// # Panics
/// If they never are; the message lists the files that exist.
pub(crate) fn counters(process: &Process) -> PerfFile {
    let until = Instant::now() + LONG;
    loop {
        match PerfFile::open(process) {
            Ok(file) => return file,
            Err(e) if Instant::now() > until => panic!("{e}; there is {:?}", published()),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The files of counters in our own `/tmp`.
fn published() -> Vec<PathBuf> {
    let within = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    within(Path::new("/tmp"))
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(b"hsperfdata_")
        })
        .flat_map(|entry| within(&entry.path()).map(|file| file.path()))
        .collect()
}

/// Waits until `so` holds. A machine that shares two processors with others follows slowly.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG * 2;
    while !so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
