//! `[pin]` on a real program: its major faults stop, what is held is no principal's, it is released when
//! it is switched off, and nothing is held where nothing can be swapped.

use crate::common::{PATIENCE, until, within};
use crate::ground::{Ground, OFF};
use crate::ladder::begin;
use plimsoll_kernel::cgroup::Version;
use plimsoll_kernel::process::Process;
use plimsoll_unit::MIB;
use serde_json::{Value, json};

/// With revocation: the ladder pages out what makes room, so that memory is not short for long.
const ON: &str = "[pin]\nenabled = true\nbudget = \"64M\"\nwindow = 2\n";
/// Reads 60 MiB of a file in no order, beside 120 MiB that it does not use, in 128 MiB.
const LINE: &str = "mix --path FILE --bytes 120M --part 1.0 --delay 1";

fn pinned(ground: &mut Ground) -> Value {
    ground.client.list()["pinned"].clone()
}

/// Bytes of the group that are locked.
fn unevictable(ground: &Ground) -> u64 {
    let stat = ground.group.cgroup().stat().expect("readable");
    stat.unevictable
}

#[test]
fn a_principals_major_faults_stop_and_what_is_held_is_released() {
    let Some(mut ground) = Ground::new("pin-broker", 60, LINE) else {
        return;
    };
    assert_eq!(pinned(&mut ground), json!(null), "it is off by default");
    let program = Process::open(ground.program.pid()).expect("it lives");
    let faults = || program.faults().expect("it lives").major;
    until("it waits for its file", || faults() > 500);
    ground.configure(ON);
    // The machine with version 2 is emulated: there pages are found too slowly to wait for more.
    let emulated = ground.group.cgroup().version() == Version::V2;
    let enough = if emulated { 1 } else { 8 * MIB };
    until("some of its file is held", || {
        let shown = pinned(&mut ground);
        let held = shown["held"].as_u64();
        held.is_some_and(|held| held >= enough) && shown["state"] == json!("holding")
    });
    if emulated {
        ground.configure(OFF);
        return until("it is released", || pinned(&mut ground) == json!(null));
    }
    // Once no page is lost any more, the other pages need not be held. Their number, and the time until
    // then, depend on the moment and on the other programs.
    until("its major faults stop for ten seconds", || {
        let before = faults();
        for _ in 0..10 {
            ground.wait(1);
            let shown = pinned(&mut ground);
            let held = shown["held"].as_u64().unwrap_or(0);
            assert!(held >= enough, "{shown}");
        }
        faults() - before <= 40
    });
    let killed = ground.group.cgroup().events().expect("readable").oom_kill;
    assert_eq!(killed, 0);
    // Those that the broker had to read itself are charged to the broker's group, which is not this one.
    until("what is held here is not shared out", || {
        let held = unevictable(&ground);
        let listing = ground.client.list();
        let bytes = |name: &str| listing[name].as_u64().expect("a number");
        held >= MIB && bytes("budget") + held <= bytes("capacity")
    });
    ground.configure(OFF);
    until("it is released", || unevictable(&ground) < MIB);
    assert_eq!(pinned(&mut ground), json!(null));
}

/// Memory that one program has locked is there for nobody else. So less than a quarter (32 MiB) of this
/// reserve is free while the program lives, however the kernel divides the rest between files and swap.
const RESERVE: &str = "reserve = \"128M\"\n";
const LOCKED: u64 = 100 * MIB;

#[test]
fn what_is_held_goes_first_when_memory_stays_short() {
    let Some(mut ground) = Ground::new("pin-short", 60, LINE) else {
        return;
    };
    // Beside what is locked there is room for it, so that nobody is killed before it is released.
    let on = ON.replace("64M", "8M");
    ground.configure(&on);
    // An emulated processor that others share takes more than a minute to fault that often.
    within(4 * PATIENCE, "some of its file is held", || {
        pinned(&mut ground)["held"].as_u64() >= Some(1)
    });
    let mut hog = begin("hog --bytes 100M --rate 20M --lock", &ground.group);
    hog.until(PATIENCE, |progress| progress.holding)
        .expect("it gets its memory");
    ground.configure(&format!("{OFF}{RESERVE}{on}"));
    let is_released = |shown: &Value| {
        let why = shown["why"].as_str().unwrap_or_default();
        shown["state"] == json!("short") && why.contains("the reserve is used up")
    };
    until("it is released", || is_released(&pinned(&mut ground)));
    until("it is unlocked", || unevictable(&ground) < LOCKED + MIB);
    for _ in 0..5 {
        ground.wait(1);
        let shown = pinned(&mut ground);
        assert!(is_released(&shown), "{shown}");
        assert_eq!(shown["held"], json!(0), "{shown}");
    }
    let log = ground.broker.log();
    assert!(log.contains("the reserve is used up"), "{log}");
    let killed = ground.group.cgroup().events().expect("readable").oom_kill;
    assert_eq!(killed, 0);
    let newest = hog.latest(PATIENCE).expect("it lives");
    assert!(newest.is_some_and(|progress| progress.holding));
}

#[test]
fn nothing_is_held_where_nothing_can_be_swapped() {
    let Some(mut ground) = Ground::new("pin-no-swap", 60, LINE.replace("120M", "60M").as_str())
    else {
        return;
    };
    let directory = ground.group.cgroup().dir();
    let bounded = std::fs::write(
        directory.join("memory.memsw.limit_in_bytes"),
        (128 * MIB).to_string(),
    );
    bounded
        .or_else(|_| std::fs::write(directory.join("memory.swap.max"), "0"))
        .expect("swap is accounted");
    ground.configure(ON);
    until("it is refused", || {
        pinned(&mut ground)["state"] == json!("refused")
    });
    let shown = pinned(&mut ground);
    let why = shown["why"].as_str().expect("a reason");
    assert!(why.contains("swap") && why.contains("kill"), "{why}");
    ground.wait(5);
    assert_eq!(pinned(&mut ground)["held"], json!(0));
    assert!(ground.broker.log().contains("no file pages are held"));
}
