//! `plimsoll run --phases` on real Java programs.

mod common;

use common::{Place, Started, stderr, wait_for};
use plimsoll_kernel::process::{Process, descendants};
use plimsoll_kernel::sched::{Parameters, Rights, parameters, threads};
use plimsoll_testbed::children::{copy_program, on_one_processor};
use plimsoll_testbed::java::{Jdk, compile_into, jdks};
use plimsoll_testbed::skip;
use plimsoll_wire::messages::Order;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The level of the programs: not the usual one, so that a level which is put back is told from that, and a
/// low one, because they share a processor with other tests.
const NICE: i32 = 2;
/// `run` without a broker and without another adapter, and then its words.
const ALONE: [&str; 6] = ["run", "-v", "--policy", "isla-vista", "--adapter", "none"];

/// A JDK, and the folder with the compiled program. `None`, and says why, where they or rights are missing.
fn java(place: &Place) -> Option<(Jdk, PathBuf)> {
    let Some(jdk) = jdks().pop() else {
        skip("no JDK");
        return None;
    };
    if !Rights::find().lower {
        skip("we have no right to lower nice levels");
        return None;
    }
    let source = "../phases/tests/java/Turnover.java";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    if !compile_into(&place.path(""), &[source]) {
        skip("no JDK with javac");
        return None;
    }
    Some((jdk, place.path("")))
}

/// The words that start the program with `count` threads.
fn program(jdk: &Jdk, classes: &Path, count: &str) -> Vec<String> {
    let words = [
        "--",
        &jdk.java().display().to_string(),
        "-XX:+UseSerialGC",
        "-Xmx64m",
        "-cp",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.extend([
        classes.display().to_string(),
        "Turnover".into(),
        count.into(),
    ]);
    words
}

/// The scheduling parameters of all threads of a process.
fn all(pid: i32) -> Vec<Parameters> {
    let process = Process::open(pid).unwrap();
    let tids = threads(&process, 1000).unwrap();
    tids.into_iter()
        .filter_map(|tid| parameters(tid).ok())
        .collect()
}

/// The Java process below one of ours.
fn machine(root: u32) -> Option<i32> {
    below(root, "java")
}

/// The process of this name below one of ours.
fn below(root: u32, name: &str) -> Option<i32> {
    let mut found = Vec::new();
    descendants(root as i32, 100, &mut found).ok()?;
    let is_it = |pid: &i32| {
        Process::open(*pid)
            .and_then(|it| it.comm())
            .is_ok_and(|it| it == name)
    };
    found.into_iter().find(is_it)
}

/// Waits until some threads of the machine are put back. Kills our program then, and checks that all have
/// what they had. Ends the machine.
fn none_stays_back(mut started: Started, java: i32) {
    wait_for("some are put back", || {
        all(java).iter().any(|it| it.nice == 19).then_some(())
    });
    started.signal(libc::SIGKILL);
    started.wait();
    wait_for("all have what they had", || {
        all(java).iter().all(|it| it.nice == NICE).then_some(())
    });
    // The end of its input ends it.
    drop(started);
    common::signal_to(java as u32, libc::SIGKILL);
}

/// Starts the program under an order. `None`, and says why, where that cannot be.
fn ordered(place: &Place) -> Option<(Started, i32)> {
    let (jdk, classes) = java(place)?;
    let words = program(&jdk, &classes, "6");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ours = ["--phases", "larf", "--phases-always"];
    let mut command = place.command(&[&ALONE[..], &ours, &words].concat());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    on_one_processor(&mut command, NICE);
    let started = Started(command.spawn().unwrap());
    let java = wait_for("the machine starts", || machine(started.0.id()));
    Some((started, java))
}

#[test]
fn if_we_are_killed_no_thread_stays_back() {
    let place = Place::new();
    if let Some((started, java)) = ordered(&place) {
        none_stays_back(started, java);
    }
}

/// The process that undoes it if we are killed may be killed first. Then the next command undoes
/// it, by the notes.
#[test]
fn if_both_are_killed_the_next_command_puts_levels_back() {
    let place = Place::new();
    let Some((mut started, java)) = ordered(&place) else {
        return;
    };
    wait_for("some are put back", || {
        all(java).iter().any(|it| it.nice == 19).then_some(())
    });
    let guard = wait_for("it is guarded", || below(started.0.id(), "plimsoll"));
    common::signal_to(guard as u32, libc::SIGKILL);
    started.signal(libc::SIGKILL);
    started.wait();
    assert!(all(java).iter().any(|it| it.nice == 19), "nobody undoes it");
    let next = place.call(&[&ALONE[..], &["--", "true"]].concat());
    assert!(next.status.success(), "{}", stderr(&next));
    assert!(all(java).iter().all(|it| it.nice == NICE));
    drop(started);
    common::signal_to(java as u32, libc::SIGKILL);
}

/// With a broker, it tells the order of a program's threads as long as there is one.
#[test]
fn the_order_is_shown() {
    let place = Place::new();
    let Some((jdk, classes)) = java(&place) else {
        return;
    };
    let words = program(&jdk, &classes, "6");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ours = [
        "run",
        "--name",
        "ordered",
        "--phases",
        "mqrr",
        "--phases-always",
    ];
    let mut command = place.command(&[&ours[..], &words].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    on_one_processor(&mut command, NICE);
    let mut started = Started(command.spawn().unwrap());
    wait_for("the order is told", || {
        let order = place.principal("ordered")?.collector?.order?;
        assert_eq!(order, Order::Mqrr);
        Some(())
    });
    // There is one only while several threads compute.
    let shown = |args: &[&str], order: &str| {
        wait_for(order, || place.text(args).contains(order).then_some(()));
    };
    shown(&["ps", "--json"], "\"order\": \"mqrr\"");
    let page = ["top", "--once", "-g", "ordered"];
    shown(&page, " ORDER             mqrr");
    // The end of its input ends it.
    drop(started.0.stdin.take());
    assert!(started.wait().success());
}

/// A program that allocates less as long as one of its threads is put back.
#[test]
fn a_withdrawal_is_told_and_shown() {
    let place = Place::new();
    let Some((jdk, classes)) = java(&place) else {
        return;
    };
    let mut words = program(&jdk, &classes, "6");
    words.extend(["0".into(), "harmed".into()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ours = ["run", "--name", "harmed", "--phases", "larf"];
    let mut command = place.command(&[&ours[..], &words].concat());
    let log = place.path("log");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    on_one_processor(&mut command, NICE);
    let mut started = Started(command.spawn().unwrap());
    wait_for("the withdrawal is shown", || {
        let order = place.principal("harmed")?.collector?.order?;
        (order == Order::Withdrawn).then_some(())
    });
    // It stays withdrawn for a minute.
    let java = machine(started.0.id()).unwrap();
    assert!(all(java).iter().all(|it| it.nice == NICE));
    let listing = place.text(&["ps", "--json"]);
    assert!(listing.contains("\"order\": \"withdrawn\""), "{listing}");
    let page = place.text(&["top", "--once", "-g", "harmed"]);
    assert!(page.contains(" ORDER        withdrawn"), "{page}");
    drop(started.0.stdin.take());
    assert!(started.wait().success());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("the order of threads is withdrawn for 60 s"),
        "{said}"
    );
}

#[test]
fn threads_beyond_the_limit_of_open_files_are_told_and_none_stays_back() {
    let place = Place::new();
    let Some((jdk, classes)) = java(&place) else {
        return;
    };
    // The Java virtual machine raises the limit for itself.
    let mut words = vec!["--nofile=48:", env!("CARGO_BIN_EXE_plimsoll")];
    words.extend(ALONE);
    words.extend(["--phases", "larf", "--phases-always"]);
    let program = program(&jdk, &classes, "60");
    words.extend(program.iter().map(String::as_str));
    let mut command = place.program("prlimit", &words);
    let log = place.path("log");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    on_one_processor(&mut command, NICE);
    let mut started = Started(command.spawn().unwrap());
    let read = || std::fs::read_to_string(&log).unwrap();
    let mut over = || started.0.try_wait().unwrap().is_some();
    let said = "are not ordered: more cannot be followed (raise the limit of open files";
    wait_for(said, || (read().contains(said) || over()).then_some(()));
    assert!(read().contains(said), "{}", read());
    let java = machine(started.0.id()).unwrap();
    none_stays_back(started, java);
}

#[test]
fn without_rights_slices_are_set_and_nice_levels_refused() {
    let place = Place::new();
    let Some((jdk, classes)) = java(&place) else {
        return;
    };
    if !Rights::find().slices {
        return skip("this kernel has no slices");
    }
    let own = classes.join("plimsoll");
    copy_program(env!("CARGO_BIN_EXE_plimsoll"), &own).unwrap();
    std::fs::set_permissions(&classes, PermissionsExt::from_mode(0o755)).unwrap();
    for (lever, said) in [("slices", "by slices"), ("nice", "needs CAP_SYS_NICE")] {
        let own = own.display().to_string();
        let mut words = vec![
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            &own,
        ];
        words.extend(ALONE);
        words.extend(["--phases", "larf", "--phases-lever", lever]);
        let program = program(&jdk, &classes, "3");
        words.extend(program.iter().map(String::as_str));
        let mut command = place.program("setpriv", &words);
        let log = place.path(lever);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log).unwrap());
        on_one_processor(&mut command, NICE);
        let mut started = Started(command.spawn().unwrap());
        let read = || std::fs::read_to_string(&log).unwrap();
        let over = || started.0.try_wait().unwrap().is_some();
        let mut over = over;
        wait_for(said, || (read().contains(said) || over()).then_some(()));
        assert!(read().contains(said), "{}", read());
        // The program runs on all the same, and ends with its input.
        drop(started.0.stdin.take());
        assert!(started.wait().success(), "{}", read());
    }
}

#[test]
fn a_program_that_is_no_java_is_left_alone() {
    let place = Place::new();
    let words = ["--phases", "mqrr", "--phases-quantum", "64K", "--", "true"];
    let output = place.call(&[&ALONE[..1], &ALONE[2..], &words].concat());
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    for words in [
        &["--phases", "fifo", "true"][..],
        &["--phases-quantum", "1M", "true"],
        &["--phases-lever", "idle", "true"],
        &["--phases", "mqrr", "--phases-quantum", "0", "true"],
        &["--phases", "larf", "-f", "programs.toml"],
    ] {
        let output = place.call(&[&["run"], words].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            stderr(&output)
        );
    }
    for words in [
        &["undo-phases"][..],
        &["undo-phases", "1", "2", "nice", "other", "x", "0", "0"],
    ] {
        assert_eq!(place.call(words).status.code(), Some(2), "{words:?}");
    }
}
