//! The group to which held pages are charged: the program's if the program has read them, ours if we have;
//! and the effect of a limit of our own group.

use crate::common::*;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_pin::locked_files::Holder;
use plimsoll_pin::open_mapped::open_mapped;
use plimsoll_pin::pages::PageSet;
use plimsoll_testbed::{Child, Progress, TestCgroup, programs};
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The kernel's counts of a group are behind by at most this much: a batch of pages for each processor.
const BEHIND: u64 = 2 * MIB;

/// Not a test of its own: this binary, started again, holds pages and says how many bytes.
///
/// ```text
/// hold PATH BYTES     the beginning of a file, whatever memory there is
/// pin PID             what this program loses and reads again, as the product does
/// ```
#[test]
fn program_that_holds() {
    let Ok(line) = std::env::var(programs::VARIABLE) else {
        return;
    };
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["hold", path, bytes] => hold(Path::new(path), bytes.parse().unwrap()),
        ["pin", pid] => pin(pid.parse().unwrap()),
        _ => panic!("{line}"),
    }
}

fn tell(bytes: u64, rounds: u64, holding: bool) {
    let progress = Progress {
        bytes,
        rounds,
        holding,
        ..Progress::default()
    };
    println!("{}", progress.to_json());
}

fn hold(path: &Path, bytes: u64) {
    let key = key_of(path);
    let pages = bytes / plimsoll_kernel::process::page_size();
    let mut holder = Holder::default();
    let wanted = BTreeMap::from([(key, PageSet::of(vec![0..pages]))]);
    let failures = holder.want(wanted, &mut |_| {
        let name = path.to_str().unwrap().to_owned();
        let own = std::process::id() as i32;
        Ok((open_mapped(own, &(0x1000..0x2000), key, &name)?, name))
    });
    assert!(failures.is_empty(), "{failures:?}");
    for round in 1.. {
        let (_, failures) = holder.work(Bytes::MAX, Nanos(u64::MAX));
        assert!(failures.is_empty(), "{failures:?}");
        let held = holder.bytes().0;
        tell(held, round, held == bytes);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn pin(pid: i32) {
    let mut pinner = pinner(options(), &[pid]);
    loop {
        let now = clock::now();
        let report = pinner.tick(now).unwrap();
        tell(report.held, report.rounds, report.held > AT_WORK);
        let wait = pinner.due(now) - clock::now();
        std::thread::sleep(wait.duration().min(Duration::from_millis(100)));
    }
}

fn start_holding(words: &[&str], group: &TestCgroup) -> Child {
    Child::start_again("charge::program_that_holds", words, Some(group)).unwrap()
}

/// Two groups: our own with this limit, and that of the programs.
fn groups(name: &str, own: u64, theirs: u64) -> Option<(TestCgroup, TestCgroup)> {
    let own = group(&format!("pin-{name}-own"), own)?;
    Some((own, group(&format!("pin-{name}"), theirs)?))
}

/// Waits until about this many bytes of locked pages are charged to a group.
fn wait_for_charge(group: &TestCgroup, bytes: u64, what: &str) {
    let end = clock::now() + PATIENCE.into();
    loop {
        let charged = group.cgroup().stat().unwrap().unevictable;
        if charged.abs_diff(bytes) <= BEHIND {
            return;
        }
        assert!(clock::now() < end, "{what}: {charged} bytes are charged");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_we_read_to_hold_it_is_charged_to_our_own_group() {
    let _one = alone();
    let Some((own, theirs)) = groups("charge-read", 128 * MIB, 128 * MIB) else {
        return;
    };
    let dir = directory();
    let path = make_file(dir.path(), "file", FILE);
    let before = own.cgroup().usage().unwrap();
    // No page of it is in memory.
    let words = ["hold", path.to_str().unwrap(), &HOT.to_string()];
    let mut holder = start_holding(&words, &own);
    holder.until(PATIENCE, |p| p.holding).unwrap();
    let process = Process::open(holder.pid()).unwrap();
    assert_eq!(process.memory().unwrap().locked, Bytes(HOT));
    wait_for_charge(&own, HOT, "our own group");
    assert!(own.cgroup().usage().unwrap() >= before + Bytes(HOT));
    // A program that uses them finds them, and is charged nothing for them.
    let mut program = start_pages(&path, Some(&theirs));
    program.until(PATIENCE, |p| p.rounds >= 2).unwrap();
    wait_for_charge(&theirs, 0, "the program's group");
    assert!(theirs.cgroup().usage().unwrap() < Bytes(HOT));
    drop(holder);
    wait_for_charge(&own, 0, "our own group, at the end");
}

#[test]
fn what_a_program_has_read_stays_charged_to_its_group() {
    let _one = alone();
    let Some((own, theirs)) = groups("charge-stays", 128 * MIB, 128 * MIB) else {
        return;
    };
    let dir = directory();
    let path = make_file(dir.path(), "file", FILE);
    let mut program = start_pages(&path, Some(&theirs));
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let words = ["hold", path.to_str().unwrap(), &HOT.to_string()];
    let mut holder = start_holding(&words, &own);
    holder.until(PATIENCE, |p| p.holding).unwrap();
    wait_for_charge(&theirs, HOT, "the program's group");
    wait_for_charge(&own, 0, "our own group");
    // Its end changes nothing about that while they are held.
    drop(program);
    wait_for_charge(&theirs, HOT, "the program's group without the program");
    drop(holder);
    wait_for_charge(&theirs, 0, "the program's group, at the end");
}

/// The reason for the margins: a holder of more than its group may have is killed, and not the program whose
/// pages it holds.
#[test]
fn holding_more_than_our_group_may_have_ends_us_and_not_the_programs() {
    let _one = alone();
    let Some((own, theirs)) = groups("charge-over", 24 * MIB, 128 * MIB) else {
        return;
    };
    let dir = directory();
    let path = make_file(dir.path(), "file", FILE);
    let mut program = start_pages(&make_file(dir.path(), "other", FILE), Some(&theirs));
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let words = ["hold", path.to_str().unwrap(), &FILE.to_string()];
    let mut holder = start_holding(&words, &own);
    let held_all = holder.until(PATIENCE, |p| p.holding);
    assert!(held_all.is_err(), "{held_all:?}");
    assert!(own.killed() > 0 && theirs.killed() == 0);
    wait_for_charge(&own, 0, "what was held is released");
    program.until(PATIENCE, |p| p.rounds >= 3).unwrap();
}

#[test]
fn in_a_limited_group_we_hold_what_fits_there_and_live() {
    let _one = alone();
    let limit = 24 * MIB;
    let Some((own, theirs)) = groups("charge-limited", limit, 56 * MIB) else {
        return;
    };
    let mut losing = losing(&theirs);
    let mut holder = start_holding(&["pin", &losing.program.pid().to_string()], &own);
    let mut most = holder.until(PATIENCE, |p| p.holding).unwrap();
    let process = Process::open(holder.pid()).unwrap();
    for _ in 0..60 {
        let now = holder.next(PATIENCE).unwrap().expect("it lives");
        let locked = process.memory().unwrap().locked;
        assert!(
            locked <= Bytes(limit) && now.bytes <= limit,
            "{locked} {now:?}"
        );
        most = if now.bytes > most.bytes { now } else { most };
    }
    assert!(most.bytes > AT_WORK && own.killed() == 0, "{most:?}");
    assert_eq!(theirs.killed(), 0);
    assert!(losing.program.end().unwrap().is_some());
}
