//! How much is held, and where nothing is.

use crate::common::*;
use plimsoll_kernel::cgroup::Version;
use plimsoll_kernel::clock;
use plimsoll_pin::Options;
use plimsoll_pin::allowance::Bound;
use plimsoll_pin::limits::Limit;
use plimsoll_pin::report::State;
use plimsoll_testbed::{Child, SwapFile, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use std::path::Path;

#[test]
fn nothing_is_held_where_nothing_can_be_swapped() {
    let _one = alone();
    let Some(group) = group("pin-refused", 56 * MIB) else {
        return;
    };
    // The machine may have swap; this group's memory may not go there.
    if let Err(error) = group.cgroup().set_swappiness(0) {
        skip(error);
        return;
    }
    let losing = losing(&group);
    let options = Options {
        without_swap: false,
        ..options()
    };
    let mut pinner = pinner(options, &[losing.program.pid()]);
    let before = locked();
    let report = tick_until(&mut pinner, "refused", |r, _| r.state == State::Refused);
    let reason = &report.groups;
    let refused = report.bound == Some(Bound::NoSwap)
        || reason.iter().any(|group| group.bound == Bound::NoSwap);
    assert!(refused, "{report:?}");
    let report = tick_for(&mut pinner, 5);
    assert_eq!((report.held, locked()), (0, before), "{report:?}");
}

#[test]
fn what_is_held_is_released_when_its_domain_is_short() {
    let _one = alone();
    let Some(group) = group("pin-short", 96 * MIB) else {
        return;
    };
    // The machine may have swap; with it there would be no shortage.
    if let Err(error) = group.cgroup().set_swappiness(0) {
        skip(error);
        return;
    }
    let mut losing = losing(&group);
    let mut pinner = pinner(options(), &[losing.program.pid()]);
    let report = tick_until(&mut pinner, "held", |report, _| report.held > HOT * 9 / 16);
    let most = report.held;
    // Without swap, what others take is gone: some 20 MiB are left. A sixteenth of the group
    // is kept free, and at most half of the rest may be held. The looks go on while it takes its memory:
    // all that was held before, beside all that it takes, does not fit.
    // The last of it slowly, so that a look comes in time also where we are kept waiting.
    let _most = start(&["hog", "--bytes", "48M", "--rate", "20M"], Some(&group));
    let line = ["hog", "--bytes", "26M", "--rate", "3M", "--delay", "3"];
    let mut hog = start(&line, Some(&group));
    let report = tick_until(&mut pinner, "released", |report, _| {
        report.held + MIB < most
    });
    let short = report
        .groups
        .iter()
        .any(|group| group.bound == Bound::Short);
    assert!(short || report.bound == Some(Bound::Short), "{report:?}");
    tick_until(&mut pinner, "taken", |_, _| latest(&mut hog).holding);
    assert!(
        losing.program.end().unwrap().is_some(),
        "nothing was killed"
    );
    assert!(hog.end().unwrap().is_some(), "nothing was killed");
}

/// The limit of this group, and the part of it that may be in swap.
const LIMIT: u64 = 96 * MIB;
const SWAP: u64 = 32 * MIB;
/// With what else is in the group, this fills its memory and its swap, except for some MiB.
const HOG: u64 = 116 * MIB;

/// A group whose programs may have at most this much in swap. `None` where that cannot be bounded.
fn group_with_little_swap(name: &str) -> Option<(TestCgroup, SwapFile)> {
    let group = group(name, LIMIT)?;
    let swap = match SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes::mib(256)) {
        Ok(swap) => swap,
        Err(error) => {
            skip(error);
            return None;
        }
    };
    let dir = group.cgroup().dir();
    let both = (LIMIT + SWAP).to_string();
    let bounded = match group.cgroup().version() {
        Version::V1 => std::fs::write(dir.join("memory.memsw.limit_in_bytes"), both),
        Version::V2 => std::fs::write(dir.join("memory.swap.max"), SWAP.to_string()),
    };
    if let Err(error) = bounded {
        skip(format_args!(
            "swap of a group cannot be bounded here: {error}"
        ));
        return None;
    }
    Some((group, swap))
}

fn start_hog(group: &TestCgroup) -> Child {
    let bytes = HOG.to_string();
    start(&["hog", "--bytes", &bytes, "--rate", "8M"], Some(group))
}

/// Why pages are given up: beside those that nobody gives up, there is no room for a program that grows.
#[test]
fn beside_what_is_not_given_up_a_program_is_killed() {
    let _one = alone();
    let Some((group, _swap)) = group_with_little_swap("pin-keeps") else {
        return;
    };
    let dir = directory();
    let path = make_file(dir.path(), "file", FILE);
    let mut program = start_pages(&path, Some(&group));
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    // Pages that the program has read are charged to the group; the others to ours.
    let list = dir.path().join("list");
    std::fs::write(&list, path.to_str().unwrap()).unwrap();
    let mut keeper = start(&["lock", "--path", list.to_str().unwrap()], None);
    keeper.until(PATIENCE, |p| p.holding).unwrap();
    let mut hog = start_hog(&group);
    let all = hog.until(PATIENCE, |p| p.holding);
    assert!(all.is_err() && group.killed() > 0, "{all:?}");
}

#[test]
fn what_was_chosen_once_ends_with_the_program() {
    let _one = alone();
    let Some(group) = group("pin-once", 56 * MIB) else {
        return;
    };
    let losing = losing(&group);
    let options = Options {
        once: true,
        ..options()
    };
    let mut pinner = pinner(options, &[losing.program.pid()]);
    tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    assert!(!pinner.is_alone());
    drop(losing);
    assert!(pinner.is_alone());
}

#[test]
fn a_group_that_is_removed_has_no_program_any_more() {
    let Some(group) = group("pin-removed", 56 * MIB) else {
        return;
    };
    let dir = group.cgroup().dir().to_path_buf();
    let mut pinner =
        plimsoll_pin::Pinner::new(options(), plimsoll_pin::Programs::Group(dir), clock::now())
            .unwrap();
    assert_eq!(pinner.tick(clock::now()).unwrap().processes, 0);
    assert!(!pinner.is_alone(), "a program may still come");
    drop(group);
    assert!(pinner.is_alone());
}

#[test]
fn a_process_that_leaves_its_group_is_watched_no_more() {
    let (Some(group), Some(other)) = (group("pin-left", 56 * MIB), group("pin-other", 56 * MIB))
    else {
        return;
    };
    let start = || Child::start(Path::new("sleep"), &["600"], Some(&group)).unwrap();
    let (leaves, _stays) = (start(), start());
    let dir = group.cgroup().dir().to_path_buf();
    let programs = plimsoll_pin::Programs::Group(dir);
    let mut pinner = plimsoll_pin::Pinner::new(options(), programs, clock::now()).unwrap();
    tick_until(&mut pinner, "watched", |report, _| report.processes == 2);
    other.cgroup().add(leaves.pid()).unwrap();
    tick_until(&mut pinner, "left", |report, _| report.processes == 1);
}

#[test]
fn nothing_is_held_in_groups_beyond_those_that_are_watched() {
    let _one = alone();
    // With fewer descriptors fewer processes and groups are watched.
    plimsoll_kernel::descriptors::raise_limit().unwrap();
    let open = plimsoll_kernel::descriptors::limit();
    let (processes, groups) = (258.min(open / 16), 256.min(open / 160));
    let Some(outer) = group("pin-many", 1 << 30) else {
        return;
    };
    let mut sleepers = Vec::new();
    for number in 0..258 {
        let group = match TestCgroup::below(outer.cgroup(), &format!("g{number}"), None) {
            Ok(group) => group,
            Err(error) => {
                skip(format_args!("no groups within groups here: {error}"));
                return;
            }
        };
        let sleeper = Child::start(Path::new("sleep"), &["600"], Some(&group)).unwrap();
        sleepers.push((sleeper, group));
    }
    let pids: Vec<i32> = sleepers.iter().map(|(sleeper, _)| sleeper.pid()).collect();
    let mut pinner = pinner(options(), &pids);
    let report = tick_until(&mut pinner, "seen", |report, _| report.rounds > 0);
    assert!(report.truncated, "{report:?}");
    let unwatched = report.groups.iter().filter(|g| g.bound == Bound::Unwatched);
    let allowances: Vec<u64> = unwatched.map(|group| group.allowance).collect();
    assert_eq!(allowances, vec![0; processes - groups]);
    let told = format!("of {processes} cgroups of the programs only {groups} are watched");
    let mut limits = report.limits.iter();
    let of_groups = limits.find(|reached| reached.limit == Limit::Groups);
    assert!(
        of_groups.is_some_and(|reached| reached.reason.starts_with(&told)),
        "{report:?}"
    );
}
