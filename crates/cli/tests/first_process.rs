//! `plimsoll run` as the first process of a container: its parent's signals reach the program, the program's
//! status is its own, and no zombie stays. And brokers outside of a program's container, and inside.

mod common;

use common::{Place, Started, hears, signal_to, stderr, wait_for};
use plimsoll_kernel::process::descendants;
use plimsoll_testbed::skip;
use std::process::{Command, Stdio};

/// Leaves a hundred orphans, waits for a minute at most until none is left, not even as a zombie, and ends
/// with a status of its own.
const ORPHANS: &str = "for n in $(seq 100); do (sleep 0.1 & exit 0); done; sleep 0.5; \
                       for n in $(seq 600); do grep -qs '^State:.Z' /proc/[0-9]*/status || break; \
                       sleep 0.1; done; grep -ls '^State:.Z' /proc/[0-9]*/status; echo done; exit 7";

/// Says which signals it receives, until one ends it.
const HEARS: &str = "for s in INT HUP QUIT USR1 USR2 WINCH; do trap \"echo $s\" $s; done; echo ready; \
                     while :; do sleep 0.05; done";

/// A command that runs `plimsoll` with these arguments as the first process of a container.
fn first(place: &Place, args: &[&str]) -> Command {
    let spaces = [
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        common::OWN,
    ];
    place.program("unshare", &[&spaces[..], args].concat())
}

/// The number of the first process, as soon as it reads signals. Until then the kernel drops them, as it does
/// for every first process.
fn reads_signals(container: &Started) -> u32 {
    let pid = wait_for("the first process runs our program", || {
        let mut found = Vec::new();
        descendants(container.0.id() as i32, 10, &mut found).ok()?;
        let pid = *found.first()? as u32;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        program.ends_with("plimsoll").then_some(pid)
    });
    hears(pid, libc::SIGTERM);
    pid
}

/// Whether containers cannot be made here, for lack of rights or since the root is no mount (chroot).
fn is_impossible() -> bool {
    let args = ["--pid", "--fork", "--mount-proc", "true"];
    let tried = Command::new("unshare").args(args).output();
    let possible = tried.is_ok_and(|tried| tried.status.success());
    if !possible {
        skip("no pid namespace of our own here");
    }
    !possible
}

#[test]
fn it_takes_away_zombies_and_ends_as_its_program() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    place.write(
        "p.toml",
        &format!("[[program]]\nname='a'\ncommand=['sh', '-c', {ORPHANS:?}]\nstdout='out'\n"),
    );
    for args in [
        vec!["run", "sh", "-c", ORPHANS],
        vec!["run", "-f", "p.toml"],
    ] {
        let output = first(&place, &args).output().unwrap();
        let file = std::fs::read(place.path("out")).unwrap_or_default();
        let told = [&output.stdout[..], &file].concat();
        assert_eq!(
            String::from_utf8_lossy(&told),
            "done\n",
            "{}",
            stderr(&output)
        );
        assert_eq!(output.status.code(), Some(7), "{args:?}");
    }
}

/// An engine sends signals from outside of the container. A program without a handler ends by the signal, and
/// the container's status says by which.
#[test]
fn it_passes_signals_on_and_tells_which_one_ended_its_program() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let out = place.path("out");
    let printed = || std::fs::read_to_string(&out).unwrap_or_default();
    let mut command = first(&place, &["run", "sh", "-c", HEARS]);
    command.stdout(std::fs::File::create(&out).unwrap());
    let mut container = Started(command.spawn().unwrap());
    wait_for("the program is ready", || {
        printed().contains("ready").then_some(())
    });
    let pid = reads_signals(&container);
    let signals = [
        (libc::SIGINT, "INT"),
        (libc::SIGHUP, "HUP"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGWINCH, "WINCH"),
    ];
    for (signal, name) in signals {
        signal_to(pid, signal);
        wait_for(name, || {
            printed().lines().any(|line| line == name).then_some(())
        });
    }
    signal_to(pid, libc::SIGTERM);
    assert_eq!(container.wait().code(), Some(128 + libc::SIGTERM));
}

/// A request to end that comes before the program runs is not lost.
#[test]
fn it_can_be_told_to_end_at_any_moment() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    for wait in [0, 1, 3, 10, 30, 100] {
        let mut command = first(&place, &["run", "sleep", "600"]);
        let mut container = Started(command.stderr(Stdio::null()).spawn().unwrap());
        let pid = reads_signals(&container);
        std::thread::sleep(std::time::Duration::from_millis(wait));
        signal_to(pid, libc::SIGTERM);
        assert_eq!(
            container.wait().code(),
            Some(128 + libc::SIGTERM),
            "{wait} ms"
        );
    }
}

/// A process has one number in its container and another one outside, where the broker is.
#[test]
fn a_broker_outside_finds_the_programs_of_a_container() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let _outside = place.start(&["run", "-n", "outside", "sleep", "600"]);
    place.attached("outside");
    let mut command = first(&place, &["run", "-n", "inside", "sleep", "600"]);
    let mut container = Started(command.spawn().unwrap());
    let pid = place.attached("inside").pid.unwrap();
    let mut found = Vec::new();
    descendants(container.0.id() as i32, 10, &mut found).unwrap();
    assert!(found.contains(&(pid as i32)), "{pid} of {found:?}");
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!(name.trim(), "sleep");
    wait_for("it is counted", || {
        place.principal("inside").filter(|inside| inside.uses > 0)
    });
    signal_to(reads_signals(&container), libc::SIGTERM);
    container.wait();
}

/// A broker in a container cannot see the processes outside. They run without it, and are told why.
#[test]
fn a_broker_inside_of_a_container_says_that_it_cannot_see_others() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let mut command = first(&place, &["run", "-n", "inside", "sleep", "600"]);
    let mut container = Started(command.spawn().unwrap());
    place.attached("inside");
    let outside = place.call(&["run", "-n", "outside", "sh", "-c", "exit 7"]);
    assert_eq!(outside.status.code(), Some(7), "{}", stderr(&outside));
    let said = stderr(&outside);
    assert!(said.contains("is not visible to this broker"), "{said}");
    signal_to(reads_signals(&container), libc::SIGTERM);
    container.wait();
}

mod guest {
    use std::path::Path;

    #[test]
    fn in_user_mode() {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        plimsoll_testbed::guest::run_in_user_mode("user-first-process", scratch, "");
    }
}
