//! The ladder on real programs in a real cgroup with real swap. The broker pages a passive program
//! that exceeds its limit, before the kernel pages any program. Its neighbour notices nothing, and
//! nothing is killed.

use crate::common::{Broker, PATIENCE, swap, until};
use crate::ground::uncached_file;
use plimsoll_broker::act::{Job, Order, Target, Worker};
use plimsoll_kernel::cgroup::Version;
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{Child, TestCgroup, programs, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(crate) const PROGRAM: &str = "PLIMSOLL_TEST_PROGRAM";

/// A bound of major faults of memory in use: a hundredth of the pages that who pays has lost by then (8 MiB
/// or more). Not 0: on a busy machine the kernel takes pages from a program that has to wait for a processor
/// between two of its rounds.
pub(crate) const FEW: u64 = (8 * MIB / 4096) / 100;

/// No test by itself: the tests below start this binary as a program, with [`PROGRAM`] set.
#[test]
fn program() {
    if let Ok(line) = std::env::var(PROGRAM) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        programs::run(&arguments);
    }
}

/// Starts a program in a group and waits until it holds the requested memory.
pub(crate) fn start(line: &str, group: &TestCgroup) -> Child {
    let mut child = begin(line, group);
    child
        .until(PATIENCE, |progress| progress.holding)
        .expect("it gets its memory");
    child
}

/// Starts a program in a group.
pub(crate) fn begin(line: &str, group: &TestCgroup) -> Child {
    let own = std::env::current_exe().expect("our path");
    let variable = format!("{PROGRAM}={line}");
    let own = own.display().to_string();
    let arguments = [
        variable.as_str(),
        own.as_str(),
        "--exact",
        "ladder::program",
        "--nocapture",
    ];
    Child::start(Path::new("/usr/bin/env"), &arguments, Some(group)).expect("it starts")
}

#[test]
fn a_passive_program_that_owes_is_paged_and_its_neighbour_is_not() {
    let Ok(group) = TestCgroup::new("broker-ladder", Some(Bytes::mib(320))) else {
        return skip("no cgroup of our own here");
    };
    let Some(_swap) = swap() else {
        return skip("no swap of our own here");
    };
    let own = tempfile::tempdir().expect("a directory");
    let domain = group.cgroup().dir().display().to_string();
    let broker = Broker::start_in(
        &own.path().join("run"),
        vec!["--domain".into(), domain.clone()],
    );
    let victim = start("hog --bytes 180M", &group);
    let mut neighbour = start("touch --bytes 48M --part 1.0 --every 20", &group);
    let mut victims = broker.connect();
    let registered = victims
        .call("Register", json!({"name": "victim", "pid": victim.pid()}))
        .expect("it is registered");
    let victim_id = registered["id"].as_u64().expect("a number");
    let mut neighbours = broker.connect();
    let registered = neighbours
        .call(
            "Register",
            json!({"name": "neighbour", "pid": neighbour.pid()}),
        )
        .expect("it is registered");
    let neighbour_id = registered["id"].as_u64().expect("a number");
    assert!(
        victims.list()["domain"]
            .as_str()
            .is_some_and(|shown| shown == domain),
        "the group is what is shared out"
    );
    // An unrelated program takes the remaining memory and more.
    let _hog = begin("hog --bytes 110M --rate 10M", &group);
    until("the victim is paged", || {
        let shown = victims.find(victim_id).expect("listed");
        shown["swapped"].as_u64().unwrap_or(0) >= 8 * MIB
    });
    // The kernel may take, on its own, some pages that it has used only once.
    let newest = neighbour.latest(PATIENCE).expect("it lives");
    let more = newest.expect("it goes on").faults_in_use;
    let shown = neighbours.find(neighbour_id).expect("listed");
    let swapped = shown["swapped"].as_u64().expect("a number");
    assert!(
        more <= FEW && swapped < MIB,
        "the neighbour was paged too: {more} faults, {shown}"
    );
    assert!(
        Process::open(victim.pid()).is_ok_and(|process| process.alive()),
        "the victim was killed"
    );
    assert_eq!(
        group
            .cgroup()
            .events()
            .map(|events| events.oom_kill)
            .unwrap_or(0),
        0
    );
}

#[test]
fn a_bound_on_a_program_that_uses_all_it_has_kills_nobody_and_leaves_no_limit() {
    let Ok(group) = TestCgroup::new("broker-bound", None) else {
        return skip("no cgroup of our own here");
    };
    let Some(_swap) = swap() else {
        return skip("no swap of our own here");
    };
    let mut busy: Vec<Child> = (0..4)
        .map(|_| start("touch --bytes 32M --part 1.0 --every 1", &group))
        .collect();
    let bound = |bytes: u64| {
        let job = Job {
            id: 1,
            order: Order::Bound(Bytes(bytes)),
            processes: Vec::new(),
            cgroup: Some(Target::at(group.cgroup().dir())),
            swappiness: None,
        };
        job.run()
    };
    for _ in 0..20 {
        let outcome = bound(48 * MIB);
        assert!(outcome.error.is_none(), "{outcome:?}");
        if group.cgroup().version() == Version::V1 {
            let limit = group.cgroup().limit().expect("readable");
            assert_eq!(limit, None, "a limit stayed");
        }
    }
    assert!(bound(u64::MAX).error.is_none());
    assert_eq!(group.cgroup().events().expect("readable").oom_kill, 0);
    for child in &mut busy {
        let before = child.latest(PATIENCE).expect("it lives").expect("it tells");
        child
            .until(PATIENCE, |progress| progress.rounds > before.rounds)
            .expect("it goes on");
    }
}

/// Programs take again what is taken from them, and their user lifts each bound, so they are not slowed. The
/// kernel would reclaim for ever for whoever sets the bound.
#[test]
fn who_lifts_each_bound_holds_up_no_other_user() {
    let Ok(group) = TestCgroup::new("broker-lifted", None) else {
        return skip("no cgroup of our own here");
    };
    let worker = Worker::start().expect("a thread");
    let file = uncached_file(Path::new(env!("CARGO_TARGET_TMPDIR")), 64);
    // The first one's memory stays above the bound: there may be no swap for it.
    let mut programs = [
        start("hog --bytes 48M", &group),
        begin(&format!("stream --path {}", file.path().display()), &group),
    ];
    programs[1]
        .until(PATIENCE, |progress| progress.rounds > 0)
        .expect("it has begun");
    let directory = group.cgroup().dir().to_path_buf();
    let lifts = Arc::new(directory.join("memory.high"));
    let lifting = Arc::downgrade(&lifts);
    let user = std::thread::spawn(move || {
        while let Some(limit) = lifting.upgrade() {
            // Version 1 has no such file, and sets no bound.
            let _ = std::fs::write(&*limit, "max");
        }
    });
    let order = |uid: u32, order| Job {
        id: uid.into(),
        order,
        processes: Vec::new(),
        cgroup: Some(Target::at(&directory)),
        swappiness: None,
    };
    for _ in 0..3 {
        for hostile in [
            Order::Bound(Bytes::mib(1)),
            Order::Take(Bytes::mib(1 << 20)),
        ] {
            worker.order(1, order(1, hostile));
            worker.order(2, order(2, Order::Take(Bytes::ZERO)));
            until("the other user has its turn", || {
                worker.take_outcomes().iter().any(|outcome| outcome.id == 2)
            });
        }
    }
    drop(lifts);
    user.join().expect("it lifts");
    for program in &mut programs {
        program.latest(PATIENCE).expect("it lives");
    }
}
