//! The stall signal: nothing without pressure, something under it.

use crate::machine::{Sums, entering, library, totals};
use crate::steered::steered;
use crate::support::{eventually, jdks};
use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::process::Process;
use plimsoll_runtimes::Ended;
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::Wish;
use std::path::Path;
use std::time::Duration;

/// Flags, and the limit at which a machine with them and 60 MiB of live data cannot but page.
const PRESSED: [(&[&str], u64); 2] = [
    (&["-XX:+UseSerialGC", "-Xmx160m", "-Xmn80m"], 72 * MIB),
    // Regions of 1 MiB and a young generation that does not become smaller under pressure.
    (&["-XX:+UseG1GC", "-Xmx160m", "-Xmn64m"], 80 * MIB),
];

#[test]
fn stalls_are_counted_under_pressure_and_only_there() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    for (flags, limit) in PRESSED {
        stalls(&home, flags, limit);
    }
}

/// As where the whole machine is short: pages go in the background, and the program does not wait for any.
#[test]
fn what_goes_to_swap_without_a_stall_makes_free_memory_go() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let swap = SwapFile::new(Path::new("/var/tmp"), Bytes::mib(256));
    let Ok(_swap) = swap.map_err(skip) else {
        return;
    };
    let flags = ["-XX:+UseSerialGC", "-Xmx200m", "-Xmn100m"];
    let mut sums = Sums::start(&home, &[], &flags, ["20", "2"]);
    let (_, steering) = steered(&sums);
    eventually("it has the agent", || Page::of(&sums.process).is_ok());
    let page = sums.page();
    let before = sums.collects(&page, 3);
    let process = Process::open(i32::try_from(sums.process.pid).unwrap()).unwrap();
    eventually("free memory goes", || {
        sums.checked();
        // The kernel refuses what is in use right now.
        let _ = advise(&process, Advice::PageOut, Bytes::MAX);
        // The adapter looks twice a second.
        std::thread::sleep(Duration::from_millis(700));
        sums.tell("gc");
        totals(&page).given_back > before.given_back
    });
    sums.goes_on();
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

/// Memory of dead objects goes to swap after a collection without a wish, and not with one.
#[test]
fn what_is_dead_is_not_written_to_swap() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let swap = SwapFile::new(Path::new("/var/tmp"), Bytes::mib(512));
    let Ok(_swap) = swap.map_err(skip) else {
        return;
    };
    for collector in ["Serial", "Parallel", "G1"] {
        let swapped = |wish| swapped_after_a_collection(&home, collector, wish);
        let (without, with) = (swapped(None), swapped(Some(Bytes::ZERO)));
        // Most of an eden of 100 MiB.
        assert!(without > with + 50 * MIB, "{collector}: {without}, {with}");
    }
}

/// Bytes in swap when all that can go there has gone, after a collection of the whole heap.
fn swapped_after_a_collection(home: &Path, collector: &str, wish: Option<Bytes>) -> u64 {
    let collector = format!("-XX:+Use{collector}GC");
    let load = format!("-agentpath:{}", library().display());
    let flags = [&collector, "-Xms200m", "-Xmx200m", "-Xmn100m", &load];
    let mut sums = Sums::start(home, &[], &flags, ["20", "2"]);
    let page = sums.page();
    sums.collects(&page, 3);
    sums.rest(&page);
    sums.wishes(&page, wish.map(Wish::stay));
    sums.collects_whole(&page);
    let process = Process::open(i32::try_from(sums.process.pid).unwrap()).unwrap();
    let mut swapped = 0;
    // The kernel refuses what is in use right now.
    eventually("all that can go to swap is there", || {
        let _ = advise(&process, Advice::PageOut, Bytes::MAX);
        let memory = process.memory().unwrap();
        swapped = memory.swap.0;
        memory.anon < Bytes::mib(16)
    });
    sums.tell("go on");
    sums.goes_on();
    sums.quit();
    swapped
}

fn stalls(home: &Path, flags: &[&str], limit: u64) {
    let cgroup = TestCgroup::new("agent-jvm", None);
    let swap = SwapFile::new(Path::new("/var/tmp"), Bytes::mib(256));
    let (cgroup, _swap) = match (cgroup, swap) {
        (Ok(cgroup), Ok(swap)) => (cgroup, swap),
        (cgroup, swap) => {
            skip(format_args!("{:?} {:?}", cgroup.err(), swap.err()));
            return;
        }
    };
    let load = format!("-agentpath:{}", library().display());
    let flags = [flags, &[&load]].concat();
    let enter = entering(&cgroup);
    let sums = Sums::start(home, &["sh", "-c", &enter], &flags, ["60", "2"]);
    let page = sums.page();
    let quiet = sums.collects(&page, 4);
    assert_eq!((quiet.stalls, quiet.stall_ns), (0, 0), "{quiet:?}");
    // Less than what lives: it cannot but page.
    sums.press(&cgroup, limit);
    eventually("pauses stall", || {
        sums.checked();
        let told = totals(&page);
        told.stalls > 0 || told.stall_ns > 0
    });
    eventually("pauses read from swap", || {
        sums.checked();
        totals(&page).major_faults > 0
    });
    let within = totals(&page);
    eventually("the whole process has as many at least", || {
        let whole = page.view().unwrap().process().unwrap();
        whole.stalls >= within.stalls && whole.major_faults >= within.major_faults
    });
    cgroup.cgroup().set_limit(None).unwrap();
    sums.goes_on();
    sums.quit();
}
