//! Java virtual machines that a script or a build tool starts under `plimsoll run`.

mod common;

use common::{Place, Started, stderr, wait_for};
use plimsoll_testbed::java::compile_into;
use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    // What the program was told remains valid after the broker has ended.
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
