//! Signals belong to the program. Our actions do not show in the output of a Java virtual machine,
//! however it was started, and wherever it runs or is stopped. SIGQUIT is sent only to machines
//! that take it as the request to attach.

mod elsewhere;
#[path = "../support/mod.rs"]
mod support;

use plimsoll_programs::hotspot::is_machine;
use plimsoll_runtimes::hotspot::attach::{Attach, AttachError};
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::skip;
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::{Program, compiled, counters, eventually, jdks};

/// Longest wait for an answer; long enough for a machine that answers at all.
const SHORT: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65534;

/// Asks the machine once, with a new connection.
fn ask(process: Process) -> Result<(), AttachError> {
    Attach::new(process)?.jcmd("VM.version", SHORT).map(drop)
}

/// The machine's answer once it has started.
fn answer_of(process: Process) -> Result<(), AttachError> {
    let mut answer = Ok(());
    eventually("it has started", || {
        answer = ask(process);
        !matches!(answer, Err(AttachError::Starting { .. }))
    });
    answer
}

/// Asserts that our actions left no trace in the program's output.
fn is_undisturbed(program: &Program) {
    let printed = program.printed();
    assert!(!printed.contains("thread dump"), "{printed}");
}

/// The files by which a machine is asked and answers: in its `/tmp`, as paths that we can open.
fn files(process: &Process) -> [PathBuf; 2] {
    let pid = process.status().unwrap().inner_pid;
    [".attach_pid", ".java_pid"].map(|name| process.path("root/tmp").join(format!("{name}{pid}")))
}

/// Asserts that the program goes on: it prints further lines.
fn goes_on(program: &Program) {
    let lines = || program.printed().lines().count();
    let before = lines();
    eventually("it works on", || lines() > before + 1);
}

fn java() -> Option<(u32, PathBuf)> {
    jdks().into_iter().find(|(version, _)| *version >= 17)
}

fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(format_args!("{what} needs root"));
    }
    root
}

/// The words to put before `java` to start it as another user, if that user can reach it.
fn reachable<'a>(home: &Path, before: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let mut reach = Command::new(before[0]);
    reach.args(&before[1..]).args(["test", "-x"]);
    let reached = reach.arg(home.join("bin/java")).output();
    if reached.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(before);
    }
    skip(format_args!("{before:?} cannot run {}", home.display()));
    None
}

#[test]
fn a_stopped_machine_is_asked_when_it_goes_on() {
    for (version, home) in jdks() {
        let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
        let process = program.machine();
        drop(counters(&process));
        process.signal(Signal::STOP).unwrap();
        eventually("it stops", || process.status().unwrap().state == b'T');
        let attach = Attach::new(process).unwrap();
        for _ in 0..3 {
            let answer = attach.jcmd("VM.version", SHORT);
            assert!(
                matches!(answer, Err(AttachError::StandsStill { .. })),
                "{answer:?}"
            );
            assert_eq!(process.status().unwrap().pending, 0);
            assert!(!files(&process)[0].exists(), "{version}");
        }
        process.signal(Signal::CONT).unwrap();
        eventually("it answers", || attach.jcmd("VM.version", SHORT).is_ok());
        goes_on(&program);
        is_undisturbed(&program);
        assert!(!files(&process)[0].exists());
    }
}

/// A program that signalled the machine died. The next one neither sends a second signal nor
/// removes the file.
#[test]
fn a_signal_that_waits_finds_its_file() {
    let Some((_, home)) = java() else { return };
    let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    drop(counters(&process));
    process.signal(Signal::STOP).unwrap();
    eventually("it stops", || process.status().unwrap().state == b'T');
    let file = Put(files(&process)[0].clone());
    std::fs::write(&file.0, "").unwrap();
    process.signal(Signal::QUIT).unwrap();
    for _ in 0..2 {
        assert!(matches!(ask(process), Err(AttachError::StandsStill { .. })));
        assert!(file.0.exists());
    }
    process.signal(Signal::CONT).unwrap();
    eventually("it answers", || ask(process).is_ok());
    goes_on(&program);
    is_undisturbed(&program);
}

/// The machine is stopped at any time, also between our look at it and the signal.
#[test]
fn whenever_a_machine_is_stopped_it_prints_nothing_of_ours() {
    let Some((_, home)) = java() else { return };
    for turn in 0..6 {
        let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
        let process = program.machine();
        let asking = std::thread::spawn(move || {
            // A program that gives up soon would remove the file.
            for _ in 0..20 {
                let attach = Attach::new(process).unwrap();
                if attach.jcmd("VM.version", Duration::from_millis(30)).is_ok() {
                    break;
                }
            }
        });
        for pause in 0..40 {
            let step = Duration::from_micros(300 * (turn + 1) + 700 * (pause % 7));
            std::thread::sleep(step);
            process.signal(Signal::STOP).unwrap();
            std::thread::sleep(step);
            process.signal(Signal::CONT).unwrap();
        }
        asking.join().unwrap();
        goes_on(&program);
        is_undisturbed(&program);
        let _ = std::fs::remove_file(&files(&process)[0]);
    }
}

/// The program that asks may have no time to wait for the socket.
#[test]
fn the_file_goes_when_the_socket_is_there_waited_for_or_not() {
    let Some((_, home)) = java() else { return };
    let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    drop(counters(&process));
    let [trigger, socket] = files(&process);
    let attach = Attach::new(process).unwrap();
    eventually("it is asked", || {
        let answer = attach.jcmd("VM.version", Duration::ZERO);
        !matches!(answer, Err(AttachError::Starting { .. }))
    });
    eventually("its socket is there", || socket.exists());
    drop(attach);
    assert!(!trigger.exists());
    goes_on(&program);
    is_undisturbed(&program);
}

#[test]
fn where_attaching_is_switched_off_it_is_seen_wherever_that_stands() {
    let Some((_, home)) = java() else { return };
    let off = "-XX:+DisableAttachMechanism";
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let arguments = format!("@{}", write("arguments", off));
    let flags = format!("-XX:Flags={}", write("flags", "+DisableAttachMechanism\n"));
    let options = format!("-XX:VMOptionsFile={}", write("options", off));
    let variable = |name: &str| format!("{name}={off}");
    let variables = ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"].map(variable);
    let hidden = "-XX:-UsePerfData";
    let mut ways: Vec<(Vec<&str>, Vec<&str>)> = vec![(vec![], vec![off]), (vec![], vec![&flags])];
    for word in [off, &arguments, &flags, &options] {
        ways.push((vec![], vec![word, hidden]));
    }
    for variable in &variables {
        ways.push((vec!["env", variable], vec![hidden]));
    }
    for (before, flags) in ways {
        let program = Program::start(&home, &before, &flags, &["5", "10"]);
        let answer = answer_of(program.machine());
        let refused = matches!(answer, Err(AttachError::Refused { .. }));
        assert!(refused, "{before:?} {flags:?}: {answer:?}");
        goes_on(&program);
        is_undisturbed(&program);
    }
}

#[test]
fn without_counters_its_command_line_speaks_for_it() {
    let Some((_, home)) = java() else { return };
    let plain = ["-XX:-UsePerfData", "-Xmx64m"];
    let program = Program::start(&home, &[], &plain, &["5", "10"]);
    let process = program.machine();
    answer_of(process).unwrap();
    goes_on(&program);
    is_undisturbed(&program);
    // A file that can no longer be read could have contained anything.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arguments");
    std::fs::write(&file, "-Xmx64m").unwrap();
    let named = format!("@{}", file.display());
    let flags = ["-XX:-UsePerfData", named.as_str()];
    let program = Program::start(&home, &[], &flags, &["5", "10"]);
    let process = program.machine();
    std::fs::remove_file(&file).unwrap();
    let answer = answer_of(process);
    assert!(
        matches!(answer, Err(AttachError::NotKnown { .. })),
        "{answer:?}"
    );
    is_undisturbed(&program);
}

/// Counters hold only the first kilobyte of a machine's options, but also its version. From version
/// 14 on a machine makes its socket again if it was removed.
#[test]
fn options_that_are_longer_than_what_is_told_of_them_are_read_elsewhere() {
    let Some((_, home)) = java() else { return };
    let long = format!("-Dx={}", "y".repeat(3000));
    for first in [long.as_str(), "-XX:-UsePerfData"] {
        let program = Program::start(&home, &[], &[first, "-Xmx64m"], &["5", "10"]);
        let process = program.machine();
        for _ in 0..2 {
            answer_of(process).unwrap();
            std::fs::remove_file(&files(&process)[1]).unwrap();
        }
        goes_on(&program);
        is_undisturbed(&program);
    }
}

#[test]
fn a_machine_that_opens_its_socket_by_itself_is_waited_for() {
    let Some((_, home)) = java() else { return };
    for flag in ["-Xrs", "-XX:+ReduceSignalUsage", "-XX:+StartAttachListener"] {
        let program = Program::start(&home, &[], &[flag, "-Xmx64m"], &["5", "10"]);
        let pid = program.child.id();
        let process = Process::new(pid).unwrap();
        eventually("it listens", || {
            is_machine(&process) && ask(process).is_ok()
        });
        goes_on(&program);
        is_undisturbed(&program);
        // Its socket is removed. Nothing would make the machine open it again, so no signal is sent.
        std::fs::remove_file(&files(&process)[1]).unwrap();
        assert!(ask(process).is_err(), "{flag}");
        goes_on(&program);
        is_undisturbed(&program);
    }
}

/// Builds our program that has a machine inside. If that fails, says so and returns `None`.
fn host(home: &Path, classes: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/host.c");
    let program = classes.join("host");
    let library = home.join("lib/server");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o"]).arg(&program).arg(source);
    for include in ["include", "include/linux"] {
        compiler.arg("-I").arg(home.join(include));
    }
    compiler.arg("-L").arg(&library).arg("-ljvm");
    compiler.arg(format!("-Wl,-rpath,{}", library.display()));
    match compiler.output() {
        Ok(output) if output.status.success() => Some(program),
        _ => {
            skip("no C compiler, or no headers of a JDK");
            None
        }
    }
}

#[test]
fn a_host_with_a_machine_inside_keeps_its_signal() {
    let Some((_, home)) = java() else { return };
    for kind in ["before", "after", "xrs"] {
        let classes = compiled("Churn.java");
        let Some(program) = host(&home, classes.path()) else {
            return;
        };
        let mut argv: Vec<OsString> = vec![program.into(), classes.path().into()];
        argv.push(kind.into());
        let mut program = Program::run(&[], argv, classes);
        let process = Process::new(program.child.id()).unwrap();
        // Ask from the first moment on, as an adapter would.
        eventually("its machine is up", || {
            if is_machine(&process) {
                let _ = ask(process);
            }
            program.printed().contains("up")
        });
        // With -Xrs the machine opens its socket by itself.
        if kind == "xrs" {
            eventually("it listens", || ask(process).is_ok());
        }
        for _ in 0..3 {
            let answer = answer_of(process);
            assert_eq!(answer.is_ok(), kind == "xrs", "{kind}: {answer:?}");
        }
        drop(program.child.stdin.take());
        program.child.wait().unwrap();
        assert!(
            program.printed().ends_with("quits 0\n"),
            "{kind}: {}",
            program.printed()
        );
        is_undisturbed(&program);
    }
}

/// The counters of a dead machine remain while another program has its number, or after the same
/// process became another program.
#[test]
fn counters_that_another_left_speak_for_nobody() {
    let Some((_, home)) = java() else { return };
    let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let machine = program.machine();
    drop(counters(&machine));
    let root = Path::new("/tmp");
    let of = |pid: u32| {
        let folders = std::fs::read_dir(root).unwrap().flatten();
        let named = |name: &OsString| name.to_string_lossy().starts_with("hsperfdata_");
        folders
            .filter(|entry| named(&entry.file_name()))
            .map(|entry| entry.path().join(pid.to_string()))
            .find(|file| file.exists())
    };
    let left = of(machine.pid).unwrap();
    // A shell that was started with the signal ignored cannot trap it.
    let words = ["env", "--default-signal=QUIT", "sh", "-c"];
    let script = "trap 'echo had' QUIT; echo up; while :; do sleep 0.1; done";
    let argv = words.iter().chain([&script]).map(OsString::from).collect();
    let shell = Program::run(&[], argv, tempfile::tempdir().unwrap());
    let process = Process::new(shell.child.id()).unwrap();
    eventually("it catches the signal", || {
        process.status().unwrap().caught & 4 != 0 && shell.printed() == "up\n"
    });
    let copy = Put(left.with_file_name(process.pid.to_string()));
    std::fs::copy(&left, &copy.0).unwrap();
    let answer = answer_of(process);
    assert!(
        matches!(answer, Err(AttachError::NotKnown { .. })),
        "{answer:?}"
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(shell.printed(), "up\n");
}

/// A file that goes with its guard.
struct Put(PathBuf);

impl Drop for Put {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_another_user_put_in_the_way_is_neither_used_nor_followed() {
    let Some((_, home)) = java() else { return };
    if !is_root("another user's files") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().display().to_string();
    let before = ["env", "-C", cwd.as_str()];
    let program = Program::start(&home, &before, &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    drop(counters(&process));
    let [trigger, socket] = files(&process);
    let file = |path: &Path| {
        std::fs::write(path, "").unwrap();
        chown(path, Some(NOBODY), None).unwrap();
        Put(path.to_owned())
    };
    let goal = folder.path().join("goal");
    let link = |path: &Path| {
        symlink(&goal, path).unwrap();
        std::os::unix::fs::lchown(path, Some(NOBODY), None).unwrap();
        Put(path.to_owned())
    };
    let beside = folder.path().join(trigger.file_name().unwrap());
    let in_the_way = || {
        let answer = answer_of(process);
        let told = matches!(answer, Err(AttachError::InTheWay { by: NOBODY, .. }));
        assert!(told, "{answer:?}");
    };
    let put = file(&socket);
    in_the_way();
    drop(put);
    for put in [&file as &dyn Fn(&Path) -> Put, &link] {
        let put = put(&beside);
        // The machine looks there first, does not heed that file, and would print its threads.
        in_the_way();
        assert!(put.0.symlink_metadata().is_ok() && !goal.exists());
        assert!(!trigger.exists());
    }
    goes_on(&program);
    is_undisturbed(&program);
    // A file in its /tmp does not matter, because ours goes to where the machine looks first.
    let put = link(&trigger);
    answer_of(process).unwrap();
    assert!(!goal.exists() && !beside.exists() && put.0.is_symlink());
    is_undisturbed(&program);
}

#[test]
fn a_socket_that_somebody_else_serves_is_not_used() {
    let Some((_, home)) = java() else { return };
    let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    drop(counters(&process));
    let put = Put(files(&process)[1].clone());
    let listener = std::os::unix::net::UnixListener::bind(&put.0).unwrap();
    let answer = answer_of(process);
    let us = std::process::id();
    assert!(
        matches!(answer, Err(AttachError::Impostor { by, .. }) if by == us),
        "{answer:?}"
    );
    // A socket left by a dead process has no listener, and the machine replaces it.
    drop(listener);
    answer_of(process).unwrap();
    is_undisturbed(&program);
}

#[test]
fn in_a_folder_that_others_may_write_to_it_is_asked_there() {
    let Some((_, home)) = java() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let cwd = folder.path().display().to_string();
    let before = ["env", "-C", cwd.as_str()];
    let program = Program::start(&home, &before, &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    answer_of(process).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    goes_on(&program);
    is_undisturbed(&program);
}
