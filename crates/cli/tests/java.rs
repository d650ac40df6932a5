//! Java virtual machines that a script or a build tool starts under `plimsoll run`.

mod common;

use common::{Place, Started, stderr, wait_for};
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::java::compile_into;
use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tests run one at a time, because several machines on two processors start slowly.
static TURN: Mutex<()> = Mutex::new(());

/// A test may start Java as long as it holds this. Without Java, says so and returns `None`.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let version = Command::new("java").arg("-version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    }
    skip("no java");
    None
}

/// Compiles the test program.
fn classes(place: &Place) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtimes/tests/java/Churn.java");
    if compile_into(&place.path(""), &[source]) {
        return Some(place.path(""));
    }
    skip("no javac");
    None
}

/// Starts a script. Its input stays open, which keeps the test program running.
fn script(place: &Place, args: &[&str], text: &str) -> Started {
    let path = place.write("start.sh", text).display().to_string();
    let mut command = place.command(&[args, &["--", "sh", &path]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Started(command.spawn().unwrap())
}

#[test]
fn a_machine_that_a_script_starts_is_steered_and_shown_so() {
    let place = Place::new();
    let (Some(_turn), Some(classes)) = (turn(), classes(&place)) else {
        return;
    };
    let classes = classes.display();
    let text = format!("java -Xmx200m -cp {classes} Churn 20 50\necho over\nexec sleep 60\n");
    let mut command = script(&place, &["run", "-n", "wrapped"], &text);
    assert_eq!(place.attached("wrapped").kind, Default::default());
    let steered = || {
        place
            .principal("wrapped")
            .filter(|p| p.adapter.as_deref() == Some("hotspot") && p.live.is_some())
    };
    wait_for("the machine is found, steered and shown", steered);
    // The paths that the program was told remain valid after the broker has ended.
    let first = place.listing().unwrap().pid;
    common::signal_to(first, libc::SIGKILL);
    wait_for("another broker knows it too", || {
        steered().filter(|_| place.listing().is_some_and(|l| l.pid != first))
    });
    drop(command.0.stdin.take());
    wait_for("without the machine it is passive again", || {
        place.principal("wrapped").filter(|p| p.adapter.is_none())
    });
}

#[test]
fn the_machine_that_does_the_work_is_steered() {
    let place = Place::new();
    let (Some(_turn), Some(classes)) = (turn(), classes(&place)) else {
        return;
    };
    let classes = classes.display();
    let go = place.path("go").display().to_string();
    // First a small launcher, later a larger machine.
    let text = format!(
        "exec 3<&0\njava -Xmx100m -cp {classes} Churn 4 4 <&3 &\n\
         while ! test -e {go}; do sleep 0.1; done\njava -Xmx600m -cp {classes} Churn 250 100 <&3\n"
    );
    let log = place.path("log").display().to_string();
    let args = ["run", "-n", "tool", "--log", &log];
    let _command = script(&place, &args, &text);
    let machines = || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches("virtual machine with").count()
    };
    wait_for("the first is steered", || (machines() == 1).then_some(()));
    place.write("go", "");
    wait_for("the larger one is steered", || {
        let live = place.principal("tool")?.live?;
        (machines() > 1 && live > 150 << 20).then_some(())
    });
}

#[test]
fn flags_are_passed_on_when_asked_for_and_break_no_machine() {
    let place = Place::new();
    let Some(_turn) = turn() else { return };
    for given in [
        "-Xmx16m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        "-XX:+UseParallelGC",
    ] {
        let line = format!("java {given} -XX:+PrintFlagsFinal -version");
        let plain = place.call(&["run", "sh", "-c", &line]);
        let flags = String::from_utf8_lossy(&plain.stdout).into_owned();
        assert!(flags.contains("ShrinkHeapInSteps"), "{}", stderr(&plain));
        assert!(!stderr(&plain).contains("Picked up"), "{}", stderr(&plain));
        let asked = place.call(&["run", "-a", "hotspot", "sh", "-c", &line]);
        let flags = String::from_utf8_lossy(&asked.stdout).into_owned();
        let shrink = flags
            .lines()
            .find(|line| line.contains("ShrinkHeapInSteps"));
        assert!(
            shrink.is_some_and(|line| line.contains("false")),
            "{given}: {shrink:?} {}",
            stderr(&asked)
        );
        assert!(stderr(&asked).contains("JDK_JAVA_OPTIONS"));
    }
}

#[test]
fn sizes_that_the_user_gave_start_whatever_the_budget_is() {
    let place = Place::new();
    let Some(_turn) = turn() else { return };
    place.write("small", "-Xmx16m\n");
    let file = format!("@{}", place.path("small").display());
    for given in ["-Xmx16m", "-Xms1t", &file] {
        let output = place.call(&["run", "java", given, "-version"]);
        let said = stderr(&output);
        assert!(!said.contains("larger value than"), "{given}: {said}");
    }
    let mut command = place.command(&["run", "java", "-version"]);
    let output = command
        .env("JAVA_TOOL_OPTIONS", "-Xmx16m")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A machine's ratios, percent.
fn ratios(pid: u32) -> Option<[u64; 2]> {
    let process = Process::new(pid).ok()?;
    let attach = Attach::new(process).ok()?;
    let machine = Machine::ask(&attach, Duration::from_secs(20)).ok()?;
    let ratio = |name| machine.flags.number(name);
    Some([ratio("MinHeapFreeRatio")?, ratio("MaxHeapFreeRatio")?])
}

#[test]
fn what_a_killed_adapter_had_set_is_put_back_by_the_next_command() {
    let place = Place::new();
    let (Some(_turn), Some(classes)) = (turn(), classes(&place)) else {
        return;
    };
    let mut command = Command::new("java");
    command
        .args(["-XX:+UseG1GC", "-Xmx600m", "-cp"])
        .arg(&classes);
    command.args(["Churn", "60", "100"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let java = Started(command.spawn().unwrap());
    let pid = java.0.id();
    let before = wait_for("it answers", || ratios(pid));
    let number = pid.to_string();
    let mut adopt = place.start(&["adopt", "-n", "one", "--max", "200M", &number]);
    wait_for("its ratios are set", || {
        ratios(pid).filter(|now| *now != before)
    });
    adopt.signal(libc::SIGKILL);
    adopt.wait();
    // The adapter may have been between two commands.
    assert_ne!(
        ratios(pid),
        Some(before),
        "nobody is there to put them back"
    );
    let folder = place.path("b/undo");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(place.call(&["run", "true"]).status.success());
    assert_eq!(ratios(pid), Some(before));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_program_without_a_name_is_called_by_its_jar_or_class_and_not_by_its_interpreter() {
    let place = Place::new();
    let mut command = place.command(&["run", "--", "env", "X=1", "sh", "./start.sh"]);
    place.write("start.sh", "exec sleep 60\n");
    let _script = Started(command.stdout(Stdio::null()).spawn().unwrap());
    assert_eq!(place.attached("start.sh").name, "start.sh");
    let (Some(_turn), Some(classes)) = (turn(), classes(&place)) else {
        return;
    };
    let classes = classes.display().to_string();
    let java = ["java", "-Xmx64m", "-cp", &classes, "Churn", "4", "4"];
    let mut command = place.command(&[&["run", "--"], &java[..]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let _run = Started(command.spawn().unwrap());
    place.attached("Churn");
    // The same of one that runs already, unless a name is given.
    let mut command = Command::new(java[0]);
    command
        .args(&java[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let alone = Started(command.spawn().unwrap());
    let pid = alone.0.id();
    let started = || std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    wait_for("it is java", || {
        started().filter(|exe| exe.ends_with("java"))
    });
    let number = pid.to_string();
    let adopted = place.start(&["adopt", &number]);
    wait_for("it is called so, too", || {
        let listing = place.listing()?;
        let found = listing
            .principals
            .into_iter()
            .find(|it| it.pid == Some(pid))?;
        (found.name == "Churn").then_some(())
    });
    drop(adopted);
}

/// Makes a test the program of another one.
const CLIENT: &str = "PLIMSOLL_TEST_CLIENT";

/// A program that takes part by itself. Another test starts it.
#[test]
fn a_client_of_its_own_name() {
    if std::env::var_os(CLIENT).is_none() {
        return;
    }
    let own = plimsoll_client::Principal::builder("my-cache").adapter("self");
    let _own = own.open().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn what_a_program_calls_itself_prevails_where_no_person_named_it() {
    let place = Place::new();
    let test = std::env::current_exe().unwrap().display().to_string();
    let client = ["--", &test, "--exact", "a_client_of_its_own_name"];
    let start = |args: &[&str]| {
        let mut command = place.command(&[args, &client[..]].concat());
        Started(
            command
                .env(CLIENT, "1")
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        )
    };
    let _run = start(&["run"]);
    wait_for("it has its own name", || place.principal("my-cache"));
    let _named = start(&["run", "-n", "given"]);
    let joined = || {
        let given = place.principal("given");
        given.filter(|found| found.adapter.as_deref() == Some("self"))
    };
    wait_for("that of a person stays", joined);
}

mod guest {
    use std::path::Path;

    /// A Java program under cgroup version 2, steered, shown, and known to the broker that comes after a
    /// killed one.
    #[test]
    fn a_machine_is_steered_in_user_mode() {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let test = "a_machine_that_a_script_starts";
        plimsoll_testbed::guest::run_in_user_mode("user-java", scratch, test);
    }
}
