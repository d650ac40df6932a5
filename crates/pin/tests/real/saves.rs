//! The savings of holding pages.

use crate::common::*;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps;
use plimsoll_unit::MIB;

#[test]
fn a_program_that_lost_its_hot_pages_faults_no_more() {
    let _one = alone();
    let Some(group) = group("pin-saves", 56 * MIB) else {
        return;
    };
    let dir = directory();
    let hot = make_file(dir.path(), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let mut program = start_pages(&hot, Some(&group));
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let _stream = start_stream(&cold, Some(&group));
    program
        .until(PATIENCE, |p| p.major_faults > 20_000)
        .unwrap();

    let before = locked();
    let mut pinner = pinner(options(), &[program.pid()]);
    let report = tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    assert!(report.refaults_per_second > 1.0, "{report:?}");
    // Give it time to find the rest.
    let report = tick_for(&mut pinner, 8);
    assert!(report.held <= FILE / 2, "{report:?}");
    assert_eq!(locked() - before, report.held);

    let after = faults(&mut pinner, &mut program);
    let held = pinner.held(1000);
    assert!(
        held.iter().any(|range| range.path.ends_with("/hot")),
        "{held:?}"
    );
    assert!(
        held.iter().all(|range| !range.path.ends_with("/cold")),
        "{held:?}"
    );
    let saved: f64 = held.iter().map(|range| range.reads_per_second).sum();
    assert!(saved > 100.0, "{saved} reads a second: {held:?}");

    pinner.release();
    assert_eq!(locked(), before);
    drop(pinner);
    loses(&mut program, after, 20.0);
}

/// State of a program's file, the number of its mappings, and the program's major faults.
#[derive(Debug, PartialEq)]
struct Picture {
    rss: u64,
    referenced: u64,
    locked: u64,
    mappings: usize,
    faults: u64,
}

fn picture(process: &Process, path: &str) -> Picture {
    let areas = smaps::areas(process, 10_000).unwrap();
    let file = areas.iter().find(|area| area.name == path).unwrap();
    Picture {
        rss: file.rss,
        referenced: file.referenced,
        locked: file.locked,
        mappings: areas.len(),
        faults: process.faults().unwrap().major,
    }
}

/// The kernel may take pages of its own accord meanwhile, when others on this machine need memory; then it is
/// done again.
#[test]
fn looking_changes_nothing_in_the_program() {
    let _one = alone();
    let dir = directory();
    let file = make_file(dir.path(), "file", FILE);
    let path = file.to_str().unwrap();
    // It reads once, and then sleeps.
    let arguments = [
        "pages", "--path", path, "--bytes", "48M", "--every", "1000000",
    ];
    let mut seen = Vec::new();
    for _ in 0..5 {
        let mut program = start(&arguments, None);
        program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
        let process = Process::open(program.pid()).unwrap();
        let before = picture(&process, path);
        let mut pinner = pinner(options(), &[program.pid()]);
        let report = tick_for(&mut pinner, 5);
        let after = picture(&process, path);
        assert!(report.rounds > 5, "{report:?}");
        assert_eq!((after.locked, after.mappings), (0, before.mappings));
        if before == after {
            assert!(report.present >= FILE, "{report:?}");
            assert_eq!(report.held, 0, "nothing was lost, so nothing is held");
            return;
        }
        seen.push((before, after));
    }
    panic!("it was changed each time: {seen:?}");
}

#[test]
fn a_dry_run_locks_nothing() {
    let _one = alone();
    let Some(group) = group("pin-dry", 56 * MIB) else {
        return;
    };
    let losing = losing(&group);
    let before = locked();
    let options = plimsoll_pin::Options {
        dry_run: true,
        ..options()
    };
    let mut pinner = pinner(options, &[losing.program.pid()]);
    let report = tick_until(&mut pinner, "chosen", |report, _| report.held > 0);
    assert_eq!(locked(), before);
    assert!(!pinner.held(10).is_empty(), "{report:?}");
}
