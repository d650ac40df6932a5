//! `plimsoll pin` as people and programs call it.

mod common;

use common::{Place, Started, stderr, wait_for};
use serde_json::Value;

/// A program that sleeps, once it is itself.
fn sleeper(place: &Place) -> (Started, String) {
    let started = Started(place.program("sleep", &["600"]).spawn().unwrap());
    let pid = started.0.id().to_string();
    wait_for("the program is itself", || {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (comm.trim() == "sleep" && state.contains(") S ")).then_some(())
    });
    (started, pid)
}

#[test]
fn a_dry_run_says_what_it_saw_and_ends() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let args = ["pin", &pid, "--dry-run", "--window", "1s", "--without-swap"];
    let text = place.text(&args);
    assert!(
        text.starts_with("nothing to hold: 1 process lost"),
        "{text}"
    );
    let text = place.text(&[&args[..], &["--json", "--budget", "3M"]].concat());
    let value: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(value["state"], "watching");
    assert_eq!(
        (&value["held"], &value["budget"]),
        (&0.into(), &(3 << 20).into())
    );
    assert_eq!(value["processes"], 1);
    assert!(value["files"].as_u64().unwrap() >= 2, "{value}");
    assert!(value["present"].as_u64().unwrap() > 64 << 10, "{value}");
    assert!(value["ranges"].as_array().unwrap().is_empty());
}

#[test]
fn it_ends_with_the_program_or_by_a_signal() {
    let place = Place::new();
    let (mut one, pid) = sleeper(&place);
    let mut watching = place.start(&["pin", &pid, "--without-swap"]);
    let mut told = place.start(&["pin", &pid, "--without-swap"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(watching.0.try_wait().unwrap().is_none());
    told.signal(libc::SIGINT);
    assert!(told.wait().success());
    one.0.kill().unwrap();
    one.0.wait().unwrap();
    assert!(watching.wait().success());
}

#[test]
fn bad_input_is_named() {
    let place = Place::new();
    for (args, needle) in [
        (
            &["pin", "2147483647"][..],
            "no process has the number 2147483647",
        ),
        (
            &["pin", "--cgroup", "/nowhere"],
            "no memory cgroup /nowhere: give its path",
        ),
        (&["pin", "--cgroup", "/proc"], "/proc"),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        let output = place.call(&["pin", "2", "--dry-run", "-w", "1s", "--without-swap"]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains("kernel thread") || said.contains("same user"),
            "{said}"
        );
    }
}
