//! The agent collects by itself when the program has filled the heap to a bound.

use crate::machine::{Sums, Way, library};
use crate::support::{LONG, eventually, jdks};
use plimsoll_runtimes::hotspot::agent::request::{self, Request};
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_testbed::cases;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::{Bound, Wish};
use std::path::Path;

/// The bound: less than half of the heap, and more than lives.
const BOUND: u64 = 70 * MIB;
/// Collections that are allowed.
const TIMES: u64 = 5;

/// Asks the agent for something. Whether it did that.
fn asks(sums: &Sums, request: Request) -> bool {
    let attach = Attach::new(sums.process).unwrap();
    let library = request::loaded(&sums.process).expect("the agent is there");
    let words = request.arguments(&library);
    let reply = attach.command(request::LOAD, &words, LONG).unwrap();
    request.is_done(&reply)
}

fn at_bound(times: u64) -> Option<Wish> {
    let bound = Some(Bound {
        above: Bytes(BOUND),
        times,
    });
    let resident = Bytes(BOUND);
    Some(Wish { resident, bound })
}

fn collects_at_its_bound(home: &Path, collector: &str, way: Way) {
    let what = format!("{collector} of {}, {way:?}", home.display());
    // An eden of 120 MiB: the program itself collects long after the bound.
    let (mut sums, page) = Sums::of(home, collector, way, &["-Xms160m", "-Xmn120m"]);
    sums.wishes(&page, at_bound(u64::MAX));
    let asked = sums.collects(&page, 2).asked;
    assert_eq!(asked, 0, "{what}: nobody has it counted");
    assert!(asks(&sums, Request::Count), "{what}");
    assert!(
        asks(&sums, Request::Count),
        "{what}: once more changes nothing"
    );
    let before = sums.collects_whole(&page);
    assert!(before.used < BOUND, "{what}: {before:?}");
    sums.wishes(&page, at_bound(before.asked + TIMES));
    eventually("it collects as often as it may", || {
        sums.told(&page).asked == before.asked + TIMES
    });
    let after = sums.collects(&page, 3);
    assert_eq!(after.asked, before.asked + TIMES, "{what}");
    assert!(
        after.full >= before.full + TIMES,
        "{what}: {before:?}, {after:?}"
    );
    // Counted no more: another may.
    assert!(asks(&sums, Request::Uncount), "{what}");
    sums.wishes(&page, at_bound(u64::MAX));
    assert_eq!(sums.collects(&page, 3).asked, after.asked, "{what}");
    assert!(asks(&sums, Request::Count), "{what}: and again");
    eventually("it collects again", || sums.told(&page).asked > after.asked);
    sums.quit();
}

#[test]
fn a_heap_is_collected_at_its_bound_as_often_as_that_is_allowed() {
    for (row, (_, home)) in jdks().into_iter().enumerate() {
        let ways = [Way::Start, Way::Attach];
        let collectors = cases::of_column(["Serial", "Parallel", "G1"], row, 2);
        for (column, collector) in collectors.into_iter().enumerate() {
            collects_at_its_bound(&home, collector, ways[(row + column) % 2]);
        }
    }
}

/// A profiler that has the machine tell it of allocations keeps that, and the agent goes on without.
#[test]
fn another_agent_that_counts_is_not_disturbed() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (sums, page) = Sums::of(&home, "Serial", Way::Start, &[]);
    sums.wishes(&page, at_bound(0));
    assert!(asks(&sums, Request::Count));
    // A copy of the library is another agent to the machine.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("libother.so");
    std::fs::copy(library(), &copy).unwrap();
    let attach = Attach::new(sums.process).unwrap();
    let counts = || {
        let words = Request::Count.arguments(copy.to_str().unwrap());
        let reply = attach.command(request::LOAD, &words, LONG).unwrap();
        Request::Count.is_done(&reply)
    };
    assert!(!counts());
    assert!(asks(&sums, Request::Count), "the first has it still");
    sums.collects(&page, 2);
    // Its adapter is gone, so it leaves it to others.
    sums.wishes(&page, None);
    eventually("the other may have it", counts);
    sums.quit();
}
