//! Free memory of Serial's, Parallel's and G1's heaps goes back to the kernel, and nothing else does.

use crate::machine::{Sums, Way, library, resident};
use crate::support::{eventually, jdks};
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_testbed::cases;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::Wish;
use std::path::Path;

/// Fills the heap, wishes, and looks at what is resident.
fn gives_back(home: &Path, collector: &str) {
    let flag = format!("-XX:+Use{collector}GC");
    let load = format!("-agentpath:{}", library().display());
    let flags = [&flag, "-Xmx300m", "-Xms300m", "-Xmn200m", &load];
    let mut sums = Sums::start(home, &[], &flags, ["20", "2"]);
    let page = sums.page();
    let what = format!("{collector} of {}", home.display());
    assert_eq!(page.view().unwrap().refusal(), None, "{what}");
    sums.collects(&page, 2);
    let told = sums.rest(&page);
    assert_eq!(told.given_back, 0, "{what}: nobody wished it");
    let full = resident(&sums.process);
    sums.wishes(&page, Some(Wish::stay(Bytes::MAX)));
    let told = sums.collects_whole(&page);
    // Regions that G1 never used may be counted at the first look.
    let nothing = collector == "G1" || told.given_back == 0;
    assert!(nothing, "{what}: all of it may stay: {told:?}");
    let before = told.given_back;
    let wished = told.used + 4 * MIB;
    sums.wishes(&page, Some(Wish::stay(Bytes(wished))));
    sums.tell("gc");
    eventually("it gives back", || sums.told(&page).given_back > before);
    let told = sums.rest(&page);
    let less = resident(&sums.process);
    // The eden was filled at least once: most of 200 MiB.
    assert!(full - less > 90 * MIB, "{what}: {full} -> {less}, {told:?}");
    // The last page of each space stays.
    let most = wished + 8192 * 4;
    assert!(told.used + told.kept <= most, "{what}: {wished}, {told:?}");
    assert!(told.free >= told.kept);
    // It works as before, and gives back what it has used again.
    sums.wishes(&page, Some(Wish::stay(Bytes::mib(36))));
    sums.tell("go on");
    sums.collects(&page, 5);
    sums.tell("gc");
    eventually("it gives back again", || {
        sums.told(&page).given_back > told.given_back
    });
    sums.wishes(&page, None);
    let given_back = sums.rest(&page).given_back;
    sums.tell("go on");
    sums.collects(&page, 3);
    assert_eq!(
        sums.told(&page).given_back,
        given_back,
        "{what}: the wish was taken back"
    );
    sums.quit();
}

#[test]
fn free_memory_goes_when_it_is_wished() {
    for (row, (_, home)) in jdks().into_iter().enumerate() {
        for collector in cases::of_column(["Serial", "Parallel", "G1"], row, 2) {
            gives_back(&home, collector);
        }
    }
}

fn refusal(page: &Page) -> String {
    page.view().unwrap().refusal().unwrap_or_default()
}

#[test]
fn memory_that_the_user_wants_to_stay_stays() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    for (first, flag, named) in [
        (
            "-XX:+UseSerialGC",
            "-XX:AllocateHeapAt=/dev/shm",
            "AllocateHeapAt",
        ),
        ("-XX:+UseShenandoahGC", "-Xms80m", "Shenandoah"),
    ] {
        let sums = Sums::start(&home, &[], &[first, "-Xmx80m", flag], ["5", "1"]);
        let page = sums.load().unwrap();
        assert!(refusal(&page).contains(named), "{}", refusal(&page));
        sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
        let told = sums.collects(&page, 3);
        assert_eq!(told.given_back, 0);
        sums.quit();
    }
}

#[test]
fn without_counters_of_the_machine_it_works_too() {
    for (_, home) in jdks() {
        let load = format!("-agentpath:{}", library().display());
        let flags = [
            "-XX:-UsePerfData",
            "-XX:+UseSerialGC",
            "-Xms120m",
            "-Xmx120m",
            "-Xmn20m",
            &load,
        ];
        let sums = Sums::start(&home, &[], &flags, ["10", "1"]);
        let page = sums.page();
        sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
        let told = sums.collects(&page, 3);
        assert_eq!((told.young, told.full), (0, 0), "it does not know");
        assert!(told.given_back > 0, "{told:?}");
        // Free memory of the old generation was given back once, and is not again in each pause.
        let later = sums.collects(&page, 20);
        let view = page.view().unwrap();
        let pauses = view.pauses_after(told.pauses);
        let mut given: Vec<u64> = pauses.map(|pause| pause.given_back).collect();
        given.sort_unstable();
        let usual = given[given.len() / 2];
        assert!(usual < later.free / 2, "{given:?}, {later:?}");
        sums.quit();
    }
}

#[test]
fn whole_huge_pages_are_given_back() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    for collector in ["-XX:+UseParallelGC", "-XX:+UseG1GC"] {
        let flags = ["-XX:+UseTransparentHugePages", collector, "-Xmx160m"];
        let mut sums = Sums::start(&home, &[], &flags, ["10", "1"]);
        let page = sums.load().unwrap();
        assert_eq!(refusal(&page), "");
        sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
        sums.collects(&page, 4);
        let told = sums.collects_whole(&page);
        assert!(told.given_back > 0, "{told:?}");
        if collector.contains("Parallel") {
            assert!(told.given_back.is_multiple_of(2 * MIB), "{told:?}");
        }
        sums.goes_on();
        sums.quit();
    }
}

#[test]
fn a_way_of_loading_makes_no_difference() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    for collector in ["Parallel", "G1"] {
        let (mut sums, page) = Sums::of(&home, collector, Way::Attach, &[]);
        sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
        sums.collects(&page, 3);
        let told = sums.collects_whole(&page);
        assert!(told.given_back > 0, "{told:?}");
        sums.quit();
    }
}
