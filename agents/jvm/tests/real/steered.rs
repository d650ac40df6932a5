//! Machines that the adapter steers by the agent.

use crate::machine::{Sums, library, resident, totals};
use crate::support::{LONG, Script, counters, eventually, jdks};
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_runtimes::{Ended, Options};
use plimsoll_testbed::{cases, children, skip};
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections;
use rustix::fs::FallocateFlags;
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Steers a machine, with the agent, by what the script says; without a limit, by nothing.
pub(crate) fn steered(sums: &Sums) -> (Script, JoinHandle<Ended>) {
    steered_with(sums, Chosen::of([("agent", "auto")]))
}

/// The same, with these options.
pub(crate) fn steered_with(sums: &Sums, chosen: Chosen) -> (Script, JoinHandle<Ended>) {
    let script = Script::default();
    let (mut link, pid) = (script.clone(), sums.program.child.id());
    let options = Options {
        chosen,
        own: Some(library()),
        ..Options::default()
    };
    let steering = std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &options));
    (script, steering)
}

/// A heap of one size.
const ONE_SIZE: [&str; 3] = ["-Xms300m", "-Xmx300m", "-Xmn150m"];

/// A heap of one size follows a limit that comes down and goes up again.
fn follows(home: &Path, flags: &[&str]) {
    let flags = [flags, &ONE_SIZE].concat();
    let sums = Sums::start(home, &[], &flags, ["20", "2"]);
    let what = format!("{} of {}", flags[0], home.display());
    let process = sums.process;
    let (script, steering) = steered(&sums);
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} fills its heap"), || {
        sums.checked();
        resident(&process) > 180 * MIB
    });
    script.limit.store(140 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} is at its limit"), || {
        sums.checked();
        resident(&process) < 145 * MIB
    });
    let page = sums.page();
    assert_eq!(page.view().unwrap().refusal(), None, "{what}");
    eventually(&format!("{what} was collected for that"), || {
        let told = totals(&page);
        told.given_back > 0 && told.full > 0
    });
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} fills its heap again"), || {
        sums.checked();
        resident(&process) > 180 * MIB
    });
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn a_heap_of_one_size_follows_its_limit() {
    // Java 11 does not tell the least size.
    let jdks = jdks().into_iter().filter(|(version, _)| *version > 11);
    let collectors = ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC"];
    for (row, (_, home)) in jdks.enumerate() {
        for collector in cases::of_column(collectors, row, 2) {
            follows(&home, &[collector]);
        }
    }
}

#[test]
fn it_does_so_where_the_program_may_ask_for_no_collections() {
    let each = [(17, "Serial"), (21, "G1"), (25, "Parallel")];
    for (version, home) in jdks() {
        let here = each.iter().filter(|(of, _)| *of == version);
        for (_, collector) in here {
            let collector = format!("-XX:+Use{collector}GC");
            follows(&home, &[&collector, "-XX:+DisableExplicitGC"]);
        }
    }
}

/// `plimsoll run` starts G1 with this flag if its heap is larger than 1 GiB. A cycle would leave most of it.
#[test]
fn it_is_collected_at_a_stop_where_usual_collections_are_concurrent() {
    let mut newer = jdks().into_iter().filter(|(version, _)| *version > 11);
    if let Some((_, home)) = newer.next_back() {
        follows(&home, &["-XX:+UseG1GC", "-XX:+ExplicitGCInvokesConcurrent"]);
    }
}

/// Options of heaps that were touched in advance, and give back all the same.
const ALWAYS: [(&str, &str); 2] = [("agent", "auto"), ("give-back", "always")];

/// As many start files have it. The counters are in no file, and the program may ask for no collections.
#[test]
fn a_heap_that_was_touched_in_advance_is_given_back_where_that_is_allowed() {
    let more = [
        "-XX:+AlwaysPreTouch",
        "-XX:+PerfDisableSharedMem",
        "-XX:+DisableExplicitGC",
    ];
    let jdks = jdks().into_iter().filter(|(version, _)| *version > 11);
    let collectors = ["-XX:+UseG1GC", "-XX:+UseSerialGC", "-XX:+UseParallelGC"];
    for (row, (_, home)) in jdks.enumerate() {
        for collector in cases::of_column(collectors, row, 2) {
            let flags = [&[collector][..], &more, &ONE_SIZE].concat();
            let sums = Sums::start(&home, &[], &flags, ["20", "2"]);
            let what = format!("{collector} of {}", home.display());
            let process = sums.process;
            assert!(resident(&process) > 300 * MIB, "{what}: all of it");
            let (script, steering) = steered_with(&sums, Chosen::of(ALWAYS));
            script.limit.store(140 * MIB, Ordering::Relaxed);
            eventually(&format!("{what} is at its limit"), || {
                sums.checked();
                resident(&process) < 147 * MIB
            });
            eventually(&format!("{what} is counted"), || {
                script.report.lock().unwrap().collections > Some(0)
            });
            let page = sums.page();
            // It is told at the end of the pause in which the memory goes.
            eventually(&format!("{what} was emptied by the agent"), || {
                totals(&page).given_back > 0
            });
            sums.quit();
            assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
        }
    }
}

#[test]
fn a_heap_that_was_touched_in_advance_stays_otherwise() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let flags = [&["-XX:+UseG1GC", "-XX:+AlwaysPreTouch"], &ONE_SIZE[..]].concat();
    let sums = Sums::start(&home, &[], &flags, ["20", "2"]);
    let (script, steering) = steered(&sums);
    script.limit.store(140 * MIB, Ordering::Relaxed);
    eventually("it has the agent", || Page::of(&sums.process).is_ok());
    let page = sums.page();
    let told = sums.collects(&page, 5);
    assert_eq!(
        (told.given_back, told.full),
        (0, 0),
        "no collection is asked for"
    );
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

/// Steers a heap of one size whose limit is far above it, until it has the agent.
fn begun(home: &Path) -> (Sums, Page, Script, JoinHandle<Ended>) {
    let flags = [&["-XX:+UseG1GC"], &ONE_SIZE[..]].concat();
    let sums = Sums::start(home, &[], &flags, ["20", "2"]);
    let (script, steering) = steered(&sums);
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually("it has the agent", || Page::of(&sums.process).is_ok());
    let page = sums.page();
    sums.collects(&page, 3);
    (sums, page, script, steering)
}

/// It lives, does its work, and comes to the last limit.
fn ends_well(sums: Sums, script: &Script, steering: JoinHandle<Ended>) {
    script.limit.store(140 * MIB, Ordering::Relaxed);
    eventually("it is at its limit", || {
        sums.checked();
        resident(&sums.process) < 147 * MIB
    });
    sums.goes_on();
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

/// Its limit would allow it all of its heap.
#[test]
fn a_program_that_is_idle_gives_back_what_it_does_not_need() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (mut sums, page, script, steering) = begun(&home);
    eventually("it fills its heap", || {
        sums.checked();
        resident(&sums.process) > 180 * MIB
    });
    sums.rest(&page);
    eventually("it gives back", || resident(&sums.process) < 140 * MIB);
    eventually("the agent did so", || totals(&page).given_back > 40 * MIB);
    sums.tell("go on");
    ends_well(sums, &script, steering);
}

/// Ten times a second: faster than any heap can follow.
#[test]
fn a_limit_that_changes_all_the_time_harms_nothing() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (sums, page, script, steering) = begun(&home);
    let (before, checked) = (totals(&page), sums.checked());
    for turn in 0..100 {
        let limit = [600, 130, 300, 90][turn % 4] * MIB;
        script.limit.store(limit, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(sums.checked() > checked, "it does its work meanwhile");
    let asked = totals(&page).full - before.full;
    assert!(asked <= 100, "{asked} whole collections for 100 changes");
    ends_well(sums, &script, steering);
}

#[test]
fn a_machine_that_was_stopped_follows_when_it_goes_on() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (sums, page, script, steering) = begun(&home);
    children::stop(sums.process.pid, LONG);
    let before = totals(&page).pauses;
    script.limit.store(140 * MIB, Ordering::Relaxed);
    // Longer than the adapter waits for an answer.
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(totals(&page).pauses, before, "it stood still");
    sums.process.signal(Signal::CONT).unwrap();
    ends_well(sums, &script, steering);
}

/// The agent leaves counting to others while nothing is wished of it.
#[test]
fn a_machine_that_was_without_a_limit_is_collected_at_its_bound_again() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (sums, page, script, steering) = begun(&home);
    for _ in 0..2 {
        let asked = totals(&page).asked;
        script.limit.store(140 * MIB, Ordering::Relaxed);
        eventually("it is collected at its bound", || {
            sums.checked();
            totals(&page).asked > asked
        });
        script.limit.store(0, Ordering::Relaxed);
        // The adapter says so, and the machine tells the agent of more objects.
        sums.collects(&page, 10);
    }
    ends_well(sums, &script, steering);
}

/// The machine has threads for as many processors as it saw when it began.
#[test]
fn a_machine_that_loses_its_processors_follows_all_the_same() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let (sums, _, script, steering) = begun(&home);
    script.limit.store(200 * MIB, Ordering::Relaxed);
    let pid = sums.process.pid.to_string();
    let mut taskset = Command::new("taskset");
    let bound = taskset.args(["-a", "-p", "-c", "0", &pid]).output();
    match bound {
        Ok(bound) if bound.status.success() => {}
        _ => skip("taskset binds no other process here"),
    }
    ends_well(sums, &script, steering);
}

/// Empties the memory file of the agent's page, as only the program itself could.
fn empty_page(sums: &Sums) {
    let page = sums.page_descriptor();
    let file = OpenOptions::new().write(true).open(page).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 0, collections::SIZE as u64).unwrap();
}

#[test]
fn a_machine_whose_page_was_emptied_is_steered_from_outside() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let flags = [
        "-XX:+UseG1GC",
        "-XX:MinHeapSize=8m",
        "-XX:InitialHeapSize=250m",
        "-Xmx300m",
        // Until the adapter sets it.
        "-XX:MaxHeapFreeRatio=100",
    ];
    let sums = Sums::start(&home, &[], &flags, ["20", "2"]);
    let committed = || Snapshot::of(counters(&sums.process).read().unwrap()).committed();
    let (script, steering) = steered(&sums);
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually("it has the agent", || Page::of(&sums.process).is_ok());
    let page = sums.page();
    sums.collects(&page, 3);
    assert!(committed() > Bytes::mib(200));
    empty_page(&sums);
    assert!(page.view().is_err());
    script.limit.store(150 * MIB, Ordering::Relaxed);
    eventually("its heap is made smaller", || {
        sums.checked();
        committed() < Bytes::mib(140)
    });
    assert!(page.view().is_err(), "nobody writes a new one");
    sums.goes_on();
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

/// Objects that a program checks in some seconds.
const WORK: u64 = 300_000;

/// A machine whose limit is less than what lives in it goes on, and is not collected for ever.
fn lives_below(home: &Path, collector: &str, sizes: &[&str]) {
    let flags = [&[collector], sizes].concat();
    let sums = Sums::start(home, &[], &flags, ["60", "2"]);
    let what = format!("{flags:?} of {}", home.display());
    let (script, steering) = steered(&sums);
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} has the agent"), || {
        Page::of(&sums.process).is_ok()
    });
    let page = sums.page();
    sums.collects(&page, 3);
    // The live data alone are 60 MiB, and the machine needs as much beside them.
    script.limit.store(70 * MIB, Ordering::Relaxed);
    let before = totals(&page);
    eventually(&format!("{what}: the adapter tries"), || {
        sums.checked();
        let told = totals(&page);
        told.full > before.full || told.given_back > before.given_back
    });
    let (before, checked) = (totals(&page), sums.checked());
    eventually(&format!("{what} does its work"), || {
        sums.checked() > checked + WORK
    });
    // The adapter may take a twentieth of the time for collections; the program works in the rest.
    let full = totals(&page).full - before.full;
    assert!(
        full < WORK / 1000,
        "{what}: {full} whole collections meanwhile"
    );
    assert_eq!(page.view().unwrap().refusal(), None, "{what}");
    script.limit.store(600 * MIB, Ordering::Relaxed);
    sums.goes_on();
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn a_limit_below_what_lives_harms_no_machine() {
    // Java 11 does not tell the least size.
    let jdks = jdks().into_iter().filter(|(version, _)| *version > 11);
    let sizes = [&ONE_SIZE[..], &["-Xmx300m"]];
    for (row, (_, home)) in jdks.step_by(2).enumerate() {
        for (column, collector) in ["-XX:+UseG1GC", "-XX:+UseParallelGC"].iter().enumerate() {
            for sizes in cases::of_column(sizes, row + column, 2) {
                lives_below(&home, collector, sizes);
            }
        }
    }
}
