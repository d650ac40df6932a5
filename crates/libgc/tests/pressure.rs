//! Memory pressure: a cgroup with a limit below what the program takes, and with swap. Programs
//! finish with the right result, and collections do not fault.

#[path = "support/heapload.rs"]
mod heapload;
#[path = "support/library.rs"]
mod library;
#[path = "support/lines.rs"]
mod lines;

use heapload::heapload;
use lines::before;
use plimsoll_testbed::{Refused, SwapFile, TestCgroup, refuse, skip};
use plimsoll_unit::{Bytes, MIB};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// Pages of a superpage.
const PAGES: u64 = 4;

/// Tests run one at a time: they share the disk, and concurrent tests would share each other's swap
/// files.
static ALONE: Mutex<()> = Mutex::new(());

fn temporary() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A directory with this library under the name that programs look for.
fn library() -> PathBuf {
    let directory = temporary().join("pressed");
    library::link(&directory);
    directory
}

/// The collector's line about one collection.
#[derive(Debug)]
struct Collection {
    young: bool,
    faults: u64,
    absent: u64,
    read: u64,
    held: u64,
}

struct Run {
    result: serde_json::Value,
    collections: Vec<Collection>,
}

/// Makes all collections whole ones.
const WHOLE: [(&str, &str); 1] = [("GC_DISABLE_INCREMENTAL", "1")];

/// Runs the command in a group with this limit in bytes.
fn run(
    program: &Path,
    library: &Path,
    group: &TestCgroup,
    arguments: &[&str],
    variables: &[(&str, &str)],
    refused: Option<Refused>,
) -> Output {
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec \"$@\"",
        group.cgroup().dir().display()
    );
    let mut command = Command::new("timeout");
    command
        .args(["300", "sh", "-c", &script, "sh"])
        .arg(program)
        .args(arguments)
        .env("GC_PRINT_STATS", "1")
        .env("LD_LIBRARY_PATH", library)
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    if let Some(refused) = refused {
        refuse(&mut command, refused);
    }
    command.output().expect("a shell runs")
}

/// Runs the program with this library and these variables in a group with this limit in bytes, to
/// its end. `None` if no cgroup or no swap is available.
fn pressed(limit: u64, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Run> {
    pressed_and_refused(limit, arguments, variables, None)
}

/// As [`pressed`], on a kernel that refuses some system calls.
fn pressed_and_refused(
    limit: u64,
    arguments: &[&str],
    variables: &[(&str, &str)],
    refused: Option<Refused>,
) -> Option<Run> {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let program = heapload()?;
    let Ok(group) = TestCgroup::new("libgc-pressure", Some(Bytes(limit))) else {
        skip("no cgroup of our own here");
        return None;
    };
    let Ok(_swap) = SwapFile::new(temporary(), Bytes::mib(512)) else {
        skip("no swap of our own here");
        return None;
    };
    let output = run(program, &library(), &group, arguments, variables, refused);
    let said = String::from_utf8_lossy(&output.stderr);
    let told = String::from_utf8_lossy(&output.stdout);
    // The end first: a summary of failed tests shows one line.
    assert!(
        output.status.success(),
        "{:?} after {} lines of statistics, at last: {}\n{told}{said}",
        output.status,
        said.lines().count(),
        said.lines().next_back().unwrap_or_default(),
    );
    let collections = said
        .lines()
        .filter(|line| line.starts_with("gc ") && line.contains("summaries held"))
        .map(|line| Collection {
            young: line.contains(": young,"),
            faults: before(line, "major faults"),
            absent: before(line, "superpages absent"),
            read: before(line, "read,"),
            held: before(line, "summaries held"),
        })
        .collect();
    Some(Run {
        result: serde_json::from_str(told.trim()).expect("one object"),
        collections,
    })
}

/// Most of the heap is not written to and does not fit: whole collections read it only once, and
/// collections of young objects not at all. Returns the last third of the collections.
fn what_lies_still_is_read_once(
    limit: u64,
    live_mb: &str,
    churn: &str,
    checksum: u64,
    young: bool,
) -> Option<Vec<Collection>> {
    let arguments = [
        "largelive",
        "--live-mb",
        live_mb,
        "--churn",
        churn,
        "--hot",
        "5",
    ];
    let variables: &[(&str, &str)] = if young { &[] } else { &WHOLE };
    if let Err(e) = plimsoll_kernel::write_tracking::new() {
        skip(format_args!("no write tracking here: {e}"));
        return None;
    }
    let mut run = pressed(limit, &arguments, variables)?;
    let sum = run.result["checksum"].as_u64();
    assert_eq!(sum, Some(checksum), "{}", run.result);
    let steady = run.collections.split_off(run.collections.len() * 2 / 3);
    assert!(steady.len() >= 3, "{:?}", run.collections);
    assert!(
        steady.iter().all(|one| one.absent > 0),
        "it did not fit: {steady:?}"
    );
    let read: u64 = steady.iter().map(|one| one.read).sum();
    let held: u64 = steady.iter().map(|one| one.held).sum();
    let whole = steady.iter().filter(|one| !one.young).count();
    assert!(read * 10 <= held, "{steady:?}");
    assert!(held > 0 || whole == 0, "{steady:?}");
    assert_eq!(whole < steady.len(), young, "{steady:?}");
    // Pages of files are not charged to the group.
    let peak = run.result["rss_peak"].as_u64().unwrap();
    assert!(peak <= limit + 10 * MIB, "{peak}");
    Some(steady)
}

#[test]
fn what_lies_still_in_swap_is_not_read_by_collections() {
    let sum = 60_277_690_924;
    if let Some(steady) = what_lies_still_is_read_once(140 * MIB, "96", "12000000", sum, false) {
        let faults: u64 = steady.iter().map(|one| one.faults).sum();
        assert!(faults <= 100 * steady.len() as u64, "{steady:?}");
    }
}

/// Small enough for the guest, whose kernel evicts the collector's own pages while it runs: few
/// compared with what lies in swap.
fn a_little_is_not_read(young: bool) {
    let sum = 12_507_725_166;
    if let Some(steady) = what_lies_still_is_read_once(60 * MIB, "40", "6000000", sum, young) {
        let few = |one: &Collection| one.faults * 10 <= one.absent * PAGES;
        assert!(steady.iter().all(few), "{steady:?}");
    }
}

#[test]
fn a_little_that_lies_still_in_swap_is_not_read() {
    a_little_is_not_read(false);
}

#[test]
fn a_little_in_swap_is_not_read_by_collections_of_young_objects() {
    a_little_is_not_read(true);
}

/// If writes cannot be tracked, each collection reads what is in swap: once, in page order, and
/// requested ahead.
fn a_little_is_read_in_page_order(refused: Refused) {
    let limit = 60 * MIB;
    let arguments = ["largelive", "--live-mb", "40", "--churn", "6000000"];
    let Some(run) = pressed_and_refused(limit, &arguments, &[], Some(refused)) else {
        return;
    };
    let absent: u64 = run.collections.iter().map(|one| one.absent).sum();
    let read: u64 = run.collections.iter().map(|one| one.read).sum();
    let faults: u64 = run.collections.iter().map(|one| one.faults).sum();
    let held: u64 = run.collections.iter().map(|one| one.held).sum();
    let told = format!("{refused:?}: {:?}", run.collections);
    assert!(read > 0 && read <= absent, "{told}");
    assert!(faults * 4 <= read * PAGES, "{told}");
    assert_eq!(held, 0, "{told}");
    assert!(run.collections.iter().all(|one| !one.young), "{told}");
}

#[test]
fn without_tracking_of_writes_it_is_read_in_page_order() {
    a_little_is_read_in_page_order(Refused::Tracking);
}

/// The kernel refuses what Linux has since 6.7.
#[test]
fn by_an_older_kernel_it_is_read_in_page_order() {
    a_little_is_read_in_page_order(Refused::TrackingAndScan);
}

/// A tree that does not fit and is walked at the end, and others that live for a while: the kernel
/// always finds something to evict.
#[test]
fn a_program_that_touches_all_it_has_is_not_killed() {
    let Some(run) = pressed(24 * MIB, &["bintree", "--depth", "18"], &[]) else {
        return;
    };
    assert_eq!(
        run.result["checksum"].as_u64(),
        Some(34_847_678),
        "{}",
        run.result
    );
}

/// The heap is collected before the kernel has to evict, so that live objects lie close together.
#[test]
fn a_heap_that_is_to_begin_larger_than_memory_does_not_reach_swap() {
    let initial = [("GC_INITIAL_HEAP_SIZE", "300000000")];
    let arguments = ["largelive", "--live-mb", "24", "--churn", "6000000"];
    let Some(run) = pressed(120 * MIB, &arguments, &initial) else {
        return;
    };
    let collections = run.collections;
    assert!(collections.len() >= 2, "{collections:?}");
    let nothing = |one: &Collection| one.absent == 0;
    assert!(collections.iter().all(nothing), "{collections:?}");
}

/// A heap that grows fast can outgrow plentiful room before the bounds are looked up again.
#[test]
fn a_heap_that_grows_fast_leaves_the_kernel_a_reserve() {
    let arguments = ["largelive", "--live-mb", "50", "--churn", "14000000"];
    let Some(run) = pressed(106 * MIB, &arguments, &[]) else {
        return;
    };
    // With a reserve, the kernel evicts only what the heap has given up. That stays charged in the
    // swap cache; when the kernel first clears it, it evicts about a hundred other pages as well.
    // Without the reserve it evicts 770 to 1,500 pages, and the process reaches the limit.
    let number = |name: &str| run.result[name].as_u64().expect("a number");
    assert!(number("rss_peak") <= 103 * MIB, "{}", run.result);
    assert!(number("major_faults") <= 256, "{}", run.result);
    assert!(number("faults_in_pauses") <= 100, "{}", run.result);
}

mod guest {
    use super::heapload::heapload;
    use super::temporary;
    use plimsoll_testbed::guest::run_under_version_2;

    /// Needs a machine with cgroup version 2 and the multi-generational LRU. Takes about a minute.
    #[test]
    fn a_little_that_lies_still_is_not_read_under_version_2() {
        let Some(heapload) = heapload() else { return };
        let library = super::library::built();
        let programs = [heapload, library.as_path()];
        run_under_version_2("guest-libgc", temporary(), "a_little", &programs);
    }
}
