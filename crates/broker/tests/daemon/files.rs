//! Page files that are changed by others, and file systems that refuse writes.

use crate::common::{Broker, Program, Sleeper, refused_start, until};
use plimsoll_testbed::{Tmpfs, skip};
use plimsoll_unit::Bytes;
use serde_json::json;
use std::path::Path;
use std::process::Command;

#[test]
fn a_page_that_is_truncated_removed_or_replaced_is_mended() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let program = Program::register(&broker, "p", json!({}));
    let sane = |program: &Program| {
        program.read_page().is_some_and(|page| {
            page.id == program.id && !page.is_stale(plimsoll_kernel::clock::now())
        })
    };
    let open = || std::fs::OpenOptions::new().write(true).open(&program.page);
    set_mode(&program.page, 0o644);
    open().expect("ours").set_len(0).expect("it can");
    until("the truncated page is whole again", || sane(&program));
    std::fs::remove_file(&program.page).expect("it can");
    until("the removed page is there again", || sane(&program));
    let other = program.page.with_extension("other");
    std::fs::write(&other, vec![0xff; 100]).expect("it can");
    std::fs::rename(&other, &program.page).expect("it can");
    until("the replaced page is ours again", || sane(&program));
    neighbour.assert_unharmed();
}

fn set_mode(path: &Path, mode: u32) {
    let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
}

#[test]
fn a_full_tmpfs_refuses_newcomers_clearly_and_leaves_others_alone() {
    let Some(tmpfs) = Tmpfs::mount("size=256k,mode=755") else {
        return;
    };
    let broker = Broker::start_in(&tmpfs.path().join("run"), Vec::new());
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    assert!(
        neighbour.page.starts_with(tmpfs.path()),
        "pages are beside the socket when that is on tmpfs"
    );
    // A state that is written meanwhile would leave the room of the one before it.
    let state = || std::fs::read_to_string(broker.directory().join("state.json"));
    until("the state is written", || {
        state().is_ok_and(|text| text.contains("neighbour"))
    });
    let filler = tmpfs.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 1 << 20]);
    let sleeper = Sleeper::start();
    let mut client = broker.connect();
    client.refuses(
        "Register",
        json!({"name": "late", "pid": sleeper.pid()}),
        "Failed",
        "is full; free some of it",
    );
    neighbour
        .client
        .call("Set", json!({"id": neighbour.id, "weight": 9}))
        .expect("what needs no file works");
    until("it is told", || {
        broker.log().contains("the state cannot be written")
    });
    neighbour.assert_unharmed();
    std::fs::remove_file(&filler).expect("it can");
    client
        .call("Register", json!({"name": "late", "pid": sleeper.pid()}))
        .expect("there is room again");
    until("the state is written after all", || {
        state().is_ok_and(|text| text.contains("\"weight\":9"))
    });
}

#[test]
fn a_read_only_tmpfs_refuses_newcomers_clearly_and_leaves_others_alone() {
    let Some(tmpfs) = Tmpfs::mount("size=1m,mode=755") else {
        return;
    };
    let broker = Broker::start_in(&tmpfs.path().join("run"), Vec::new());
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    // The log and open pages keep the tmpfs busy for writing, so bind the directory read-only over
    // itself.
    let directory = broker.directory().display().to_string();
    let bind = |arguments: &[&str]| {
        Command::new("mount")
            .args(arguments)
            .status()
            .is_ok_and(|status| status.success())
    };
    assert!(
        bind(&["--bind", &directory, &directory]) && bind(&["-o", "remount,bind,ro", &directory])
    );
    let mut client = broker.connect();
    client.refuses(
        "Register",
        json!({"name": "late"}),
        "Failed",
        "is read-only; mount it for writing",
    );
    neighbour.assert_unharmed();
    assert!(
        Command::new("umount")
            .arg("-l")
            .arg(&directory)
            .status()
            .is_ok_and(|status| status.success())
    );
    client
        .call("Register", json!({"name": "late"}))
        .expect("it can be written again");
    drop(broker);
    tmpfs.remount("ro");
    let (code, said) = refused_start(&[
        "--directory",
        &tmpfs.path().join("other").display().to_string(),
    ]);
    assert_eq!(code, Some(1));
    assert!(said.contains("read-only; mount it for writing"), "{said}");
}

#[test]
fn a_directory_that_others_may_write_to_is_not_used() {
    let own = tempfile::tempdir().expect("a directory");
    let directory = own.path().join("run");
    std::fs::create_dir(&directory).expect("it can");
    set_mode(&directory, 0o777);
    let (code, said) = refused_start(&["--directory", &directory.display().to_string()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("chmod go-w"), "{said}");
    let long = own.path().join("x".repeat(120));
    let (code, said) = refused_start(&["--directory", &long.display().to_string()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("too long for a socket"), "{said}");
}

#[test]
fn a_cgroup_that_vanishes_costs_only_its_own_figures() {
    let Ok(group) = plimsoll_testbed::TestCgroup::new("broker-vanish", Some(Bytes::mib(64))) else {
        skip("no cgroup of our own here");
        return;
    };
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let directory = group.cgroup().dir().display().to_string();
    let mut client = broker.connect();
    let registered = client
        .call(
            "Register",
            json!({"name": "g", "kind": "group", "cgroup": directory}),
        )
        .expect("a group");
    drop(group);
    until("it is told", || broker.log().contains("cannot be read"));
    let id = registered["id"].as_u64().expect("a number");
    assert!(client.find(id).is_some());
    neighbour.assert_unharmed();
}
