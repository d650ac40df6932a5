//! Other processes' pages on the real kernel: paging out, page states, working sets, shared segments.

use crate::common::{PATIENCE, alone, group, start, start_holding, swap, use_is_noted};
use plimsoll_kernel::advise::{Advice, advise, advise_ranges};
use plimsoll_kernel::pages::{PageMap, Tier};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced::{self, Pace, Sampler};
use plimsoll_kernel::{clock, smaps};
use plimsoll_testbed::skip;
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::time::{Duration, Instant};

#[test]
fn the_victim_is_paged_out_and_its_neighbour_is_not() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("victim", None) else {
        return;
    };
    let victim = start_holding(&["hog", "--bytes", "64M"], Some(&group));
    let neighbour = start_holding(&["hog", "--bytes", "64M"], Some(&group));
    let (victim, neighbour) = (
        Process::open(victim.pid()).map(|p| (p, victim)).unwrap(),
        (Process::open(neighbour.pid()).unwrap(), neighbour),
    );
    let faults = neighbour.0.faults().unwrap().major;

    let done = match advise(&victim.0, Advice::PageOut, Bytes(32 * MIB)) {
        Err(e) if e.is_denied() || e.is_absent() => {
            skip(e);
            return;
        }
        other => other.unwrap(),
    };
    assert!((32 * MIB..33 * MIB).contains(&done.bytes.0), "{done:?}");
    let swapped = victim.0.memory().unwrap().swap;
    assert!(
        (28 * MIB..=34 * MIB).contains(&swapped.0),
        "{swapped} in swap after {done:?}"
    );

    // Pages that were paged out may still be in memory as cache of the swap. Reclaiming takes these first.
    let taken = group.cgroup().reclaim(Bytes(24 * MIB)).unwrap();
    assert!(taken >= Bytes(20 * MIB), "took {taken}");
    assert_eq!(neighbour.0.memory().unwrap().swap, Bytes(0));
    assert_eq!(neighbour.0.faults().unwrap().major, faults);
    assert!(victim.0.alive() && neighbour.0.alive());
}

#[test]
fn what_is_in_use_stays_when_cold_areas_suffice() {
    let _one = alone();
    if !use_is_noted() {
        return;
    }
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("cold", None) else {
        return;
    };
    let mut busy = start(
        &["touch", "--bytes", "64M", "--part", "1", "--every", "50"],
        Some(&group),
    );
    busy.until(PATIENCE, |p| p.rounds >= 2).unwrap();
    let process = Process::open(busy.pid()).unwrap();
    referenced::clear(&process).unwrap();
    // Rounds that it reported before are no news.
    let seen = busy.latest(PATIENCE).unwrap().unwrap().rounds;
    busy.until(PATIENCE, |p| p.rounds >= seen + 3).unwrap();
    let areas = smaps::areas(&process, 10_000).unwrap();
    let big = areas
        .iter()
        .find(|a| a.anonymous >= 60 * MIB)
        .expect("its memory is one area");
    assert!(big.referenced >= 60 * MIB, "{big:?}");
    // The area that is in use comes last.
    let order = plimsoll_kernel::advise::coldest_first(&areas);
    let place = order.iter().position(|r| *r == big.addresses).unwrap();
    let colder = areas
        .iter()
        .filter(|a| order.contains(&a.addresses) && a.referenced * 2 < a.rss)
        .count();
    assert!(place >= colder, "{place} before {colder} colder ones");
}

#[test]
fn advice_on_nonsense_is_passed_over_and_the_dead_are_told() {
    let _one = alone();
    let own = start_holding(&["hog", "--bytes", "4M"], None);
    let process = Process::open(own.pid()).unwrap();
    let areas = smaps::areas(&process, 10_000).unwrap();
    let big = areas
        .iter()
        .find(|a| a.anonymous >= 4 * MIB)
        .unwrap()
        .addresses
        .clone();
    let nowhere = 0x1000..0x2000;
    let ranges = [
        nowhere.clone(),
        big.start..big.start + MIB,
        nowhere,
        big.start + MIB..big.start + 2 * MIB,
    ];
    match advise_ranges(&process, Advice::Cold, &ranges) {
        Err(e) if e.is_denied() || e.is_absent() => skip(e),
        other => assert_eq!(other.unwrap().bytes, Bytes(2 * MIB)),
    }
    drop(own);
    let gone = advise(&process, Advice::Cold, Bytes(MIB));
    assert!(
        gone.as_ref().is_err_and(plimsoll_kernel::Error::is_gone),
        "{gone:?}"
    );
}

#[test]
fn both_tiers_count_the_same_pages() {
    let _one = alone();
    let Some(_swap) = swap(128 * MIB) else { return };
    let Some(group) = group("tiers", None) else {
        return;
    };
    let hog = start_holding(&["hog", "--bytes", "48M"], Some(&group));
    let process = Process::open(hog.pid()).unwrap();
    if let Err(e) = advise(&process, Advice::PageOut, Bytes(16 * MIB)) {
        skip(e);
        return;
    }
    let areas = smaps::areas(&process, 10_000).unwrap();
    let big = &areas
        .iter()
        .find(|a| a.anonymous + a.swap >= 48 * MIB)
        .unwrap()
        .addresses;
    let scan = PageMap::open(&process).unwrap();
    let words = PageMap::open_with(&process, Tier::Words).unwrap();
    let counts = words.counts(big).unwrap();
    assert!(counts.swapped >= Bytes(14 * MIB), "{counts:?}");
    assert_eq!(counts.present + counts.swapped, Bytes(48 * MIB));
    assert_eq!(scan.counts(big).unwrap(), counts);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    assert!(scan.present_runs(big, 1 << 16, &mut a).unwrap());
    assert!(words.present_runs(big, 1 << 16, &mut b).unwrap());
    let sum = |runs: &[std::ops::Range<u64>]| runs.iter().map(|r| r.end - r.start).sum::<u64>();
    assert_eq!((sum(&a), sum(&b)), (counts.present.0, counts.present.0));
    let mut first = Vec::new();
    assert_eq!(
        words.present_runs(big, 1, &mut first).unwrap(),
        b.len() <= 1
    );
    assert_eq!(first.len(), 1);
}

#[test]
fn the_working_set_is_what_was_touched() {
    let _one = alone();
    if !use_is_noted() {
        return;
    }
    let mut toucher = start(
        &[
            "touch", "--bytes", "128M", "--part", "0.3", "--every", "100",
        ],
        None,
    );
    toucher.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let process = Process::open(toucher.pid()).unwrap();
    // The window ends whenever the program has made a number of rounds, not after a number of seconds.
    let pace = Pace {
        window: Nanos(1),
        shortest: Nanos(1),
        longest: Nanos(2),
        share: 1.0,
    };
    let mut sampler = Sampler::new(pace, clock::now());
    assert_eq!(sampler.step(&process, clock::now()).unwrap(), None);
    let start = toucher.latest(PATIENCE).unwrap().unwrap().rounds;
    toucher.until(PATIENCE, |p| p.rounds >= start + 4).unwrap();
    let found = sampler
        .step(&process, clock::now())
        .unwrap()
        .expect("an estimate");
    let part = found.referenced.0 as f64 / (128 * MIB) as f64;
    assert!((0.25..0.35).contains(&part), "{part}: {found:?}");
    assert!(found.resident >= Bytes(128 * MIB));
}

#[test]
fn shared_segments_are_known_by_their_file() {
    let _one = alone();
    if !use_is_noted() {
        return;
    }
    let path =
        std::path::Path::new("/dev/shm").join(format!("plimsoll-test-{}", std::process::id()));
    let name = path.to_str().unwrap();
    let arguments = |rate| ["share", "--path", name, "--bytes", "4M", "--rate", rate];
    // So slow that it touches few of the pages, however long the other program takes.
    let mut fast = start(&arguments("20"), None);
    let mut slow = start(&arguments("0.02"), None);
    let ready = |child: &mut plimsoll_testbed::Child| child.until(PATIENCE, |p| p.holding).unwrap();
    ready(&mut fast);
    ready(&mut slow);
    std::fs::remove_file(&path).unwrap();
    let (a, b) = (
        Process::open(fast.pid()).unwrap(),
        Process::open(slow.pid()).unwrap(),
    );
    referenced::clear(&a).unwrap();
    referenced::clear(&b).unwrap();
    let start = fast.latest(PATIENCE).unwrap().unwrap().rounds;
    fast.until(PATIENCE, |p| p.rounds >= start + 6).unwrap();
    let of = |p: &Process| {
        referenced::segments(p, 16)
            .unwrap()
            .memory
            .into_iter()
            .find(|s| s.size == Bytes(4 * MIB))
            .unwrap()
    };
    let end = Instant::now() + PATIENCE;
    while of(&b).referenced == Bytes(0) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (fast, slow) = (of(&a), of(&b));
    assert_eq!(fast.key, slow.key);
    assert!(
        fast.referenced > Bytes(3 * MIB) && slow.referenced < Bytes(2 * MIB),
        "{fast:?} {slow:?}"
    );
    assert!(slow.referenced > Bytes(0));
}

#[test]
fn nothing_is_paged_out_where_there_is_no_swap() {
    let _one = alone();
    if !plimsoll_kernel::swap::spaces().unwrap().is_empty() {
        skip("this machine has swap");
        return;
    }
    let hog = start_holding(&["hog", "--bytes", "4M"], None);
    let process = Process::open(hog.pid()).unwrap();
    let refused = advise(&process, Advice::PageOut, Bytes(MIB)).unwrap_err();
    assert!(refused.to_string().contains("no free swap"), "{refused}");
}
