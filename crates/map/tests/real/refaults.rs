//! Pages that left memory and came back are told in their area, once, and no other pages are.

use crate::common::{PATIENCE, alone, group, start, stop, swap};
use plimsoll_map::{Kind, Look, Options, Watch};
use plimsoll_testbed::children::signal;
use plimsoll_testbed::{Child, TestCgroup};
use plimsoll_unit::MIB;
use rustix::process::Signal;

const HELD: u64 = 16 * MIB;

fn see(watch: &mut Watch, program: &Child) -> Look {
    watch.look(program.pid(), &Options::default()).unwrap()
}

/// Refaulted bytes of the area, and of all others.
fn refaulted(look: &Look, kind: Kind) -> (Option<u64>, u64) {
    let of = |wanted: bool| {
        let areas = look.areas.iter();
        areas.filter(move |area| (area.kind == kind) == wanted)
    };
    let bytes = |area: &plimsoll_map::attribute::AreaOf| area.states.refaulted;
    let others: u64 = of(false).filter_map(bytes).sum();
    let sum = of(true).find_map(bytes);
    assert_eq!(look.total.refaulted.is_some(), sum.is_some());
    assert_eq!(look.total.refaulted.unwrap_or(0), sum.unwrap_or(0) + others);
    (sum, others)
}

/// The bytes of an area that are away: in swap, or of a file and not in the page cache.
fn away(look: &Look, kind: Kind) -> u64 {
    let area = look.areas.iter().find(|area| area.kind == kind).unwrap();
    let states = area.states;
    match kind {
        Kind::Files => states.size - states.cached.unwrap_or(states.size),
        _ => states.swapped,
    }
}

/// A program that stands still loses what it holds to another one, and then takes it up again.
fn lose_and_return(group: &TestCgroup, arguments: &[&str], kind: Kind) {
    let mut program = start(arguments, Some(group));
    program.until(PATIENCE, |p| p.rounds >= 2).unwrap();
    stop(&program);
    let mut watch = Watch::default();
    let first = see(&mut watch, &program);
    assert_eq!(refaulted(&first, kind).0, None);
    assert_eq!(away(&first, kind), 0, "{first:?}");

    // A hog that is larger than the group's limit.
    let hog = start(&["hog", "--bytes", "64M"], Some(group));
    let second = see(&mut watch, &program);
    let lost = away(&second, kind);
    assert!(lost > HELD / 2, "{second:?}");
    assert_eq!(refaulted(&second, kind), (Some(0), 0));
    drop(hog);

    let now = plimsoll_kernel::clock::now().0;
    signal(program.pid().unsigned_abs(), Signal::CONT);
    // Its first report counts also the rounds before it stood still that it had not reported.
    let awake = program.until(PATIENCE, |p| p.time_ns >= now).unwrap();
    let later = program.until(PATIENCE, |p| p.rounds >= awake.rounds + 10);
    later.unwrap();
    stop(&program);
    let third = see(&mut watch, &program);
    let (back, others) = refaulted(&third, kind);
    let back = back.unwrap();
    // The kernel may have taken some again.
    assert!(
        back <= lost && back > lost / 4 * 3,
        "{kind:?}: {back} of {lost}"
    );
    assert!(others < back / 4, "{others} of other areas: {third:?}");

    let fourth = see(&mut watch, &program);
    assert_eq!(refaulted(&fourth, kind), (Some(0), 0));
    watch.keep(&[]);
    assert_eq!(refaulted(&see(&mut watch, &program), kind).0, None);
}

#[test]
fn what_comes_back_is_told_in_its_area() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("refaults", 40 * MIB) else {
        return;
    };
    let bytes = HELD.to_string();
    let anonymous = ["touch", "--bytes", &bytes, "--every", "20"];
    lose_and_return(&group, &anonymous, Kind::Other);

    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    let file = std::fs::File::create(&path).unwrap();
    // A page that is not written to the disk yet would stay in the page cache.
    std::io::Write::write_all(&mut &file, &vec![1; HELD as usize]).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let path = path.to_str().unwrap();
    let of_file = ["pages", "--path", path, "--bytes", &bytes, "--every", "20"];
    lose_and_return(&group, &of_file, Kind::Files);

    let shared = format!("/dev/shm/plimsoll-map-refaults-{}", std::process::id());
    let tmpfs = [
        "share",
        "--path",
        &shared,
        "--bytes",
        &bytes,
        "--unpaced",
        "--report",
        "20",
    ];
    let outcome = std::panic::catch_unwind(|| {
        lose_and_return(&group, &tmpfs, Kind::SharedMemory);
    });
    let _ = std::fs::remove_file(&shared);
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_program_that_loses_nothing_has_no_refaults() {
    let _one = alone();
    let bytes = HELD.to_string();
    let mut program = start(&["touch", "--bytes", &bytes, "--every", "5"], None);
    let mut watch = Watch::default();
    see(&mut watch, &program);
    let mut rounds = 0;
    for _ in 0..4 {
        let reached = program.until(PATIENCE, |p| p.rounds > rounds + 2).unwrap();
        rounds = reached.rounds;
        let look = see(&mut watch, &program);
        // Nothing of it was in swap at any look, so nothing can have come from there.
        let (heap, _) = refaulted(&look, Kind::Other);
        assert!(
            heap == Some(0) || look.counters.major_faults > 0,
            "{look:?}"
        );
    }
}
