//! How often this library collects and how much memory it takes, compared with libgc. The program is
//! `tests/c-alone/pace.c`; it runs with both.

#[path = "support/library.rs"]
mod library;
#[path = "support/programs.rs"]
mod programs;

use programs::{Running, compile};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| compile("tests/c-alone/pace.c", "pace"))
        .as_deref()
}

/// Runs the program, and returns what it printed.
fn run(shape: &str, ours: bool) -> Option<Result<String, String>> {
    let mut command = Command::new(program()?);
    command.arg(shape);
    if ours {
        command.env("LD_LIBRARY_PATH", programs::library("pace-library"))
    } else {
        command.env_remove("LD_LIBRARY_PATH")
    };
    Some(Running::start(&mut command, &format!("pace-{shape}-{ours}")).end(PATIENCE))
}

/// The program's counts.
#[derive(Debug)]
struct Counted {
    collections: u64,
    /// Its resident memory at most, less that before there was a heap, KiB.
    grown: u64,
    /// The first size of the heap, bytes.
    begins: u64,
    /// The most bytes of the heap that were not free.
    occupied: u64,
}

fn count(shape: &str, ours: bool) -> Option<Counted> {
    let said = run(shape, ours)?.unwrap_or_else(|why| panic!("{shape}: {why}"));
    let words = said.lines().next().unwrap_or_default().split(' ');
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let [collections, grown, begins, occupied] = numbers[..] else {
        panic!("{shape}: {said}");
    };
    Some(Counted {
        collections,
        grown,
        begins,
        occupied,
    })
}

/// With libgc, and with this library.
fn both(shape: &str) -> Option<[Counted; 2]> {
    let counted = [count(shape, false)?, count(shape, true)?];
    println!("{shape}: {counted:?}");
    Some(counted)
}

#[test]
fn threads_that_live_together_are_hardly_more_often_collected() {
    let Some([theirs, ours]) = both("threads") else {
        return;
    };
    let most = theirs.collections * 3 / 2 + 1;
    assert!(ours.collections <= most, "{ours:?} {theirs:?}");
}

#[test]
fn small_strings_are_not_collected_more_often() {
    let Some([theirs, ours]) = both("strings") else {
        return;
    };
    assert!(
        ours.collections <= theirs.collections + 2,
        "{ours:?} {theirs:?}"
    );
}

#[test]
fn objects_with_finalizers_that_die_at_once_take_little() {
    let Some([theirs, ours]) = both("dying") else {
        return;
    };
    assert!(ours.grown <= 3 * theirs.grown + 512, "{ours:?} {theirs:?}");
}

#[test]
fn new_finalizers_are_a_reason_to_collect_before_the_heap_grows() {
    let Some([theirs, ours]) = both("score") else {
        return;
    };
    // In KiB. The libraries' own sizes differ, and libgc's heap grows by a third at a time: by luck it ends
    // a third larger or smaller.
    assert!(
        ours.grown <= theirs.grown * 4 / 3 + 2048,
        "{ours:?} {theirs:?}"
    );
}

#[test]
fn a_heap_in_which_all_dies_stays_small() {
    let Some([theirs, ours]) = both("small") else {
        return;
    };
    assert_eq!(ours.begins, theirs.begins);
    assert!(ours.occupied <= 300_000, "{ours:?}");
}

#[test]
fn one_signal_for_stopping_and_restarting_is_refused() {
    for ours in [false, true] {
        let Some(said) = run("signals", ours) else {
            return;
        };
        let why = said.expect_err("it cannot begin");
        assert!(why.contains("signal: 6") && why.contains("signal"), "{why}");
    }
}
