//! Dead objects in swap that are needed once more, for finalizers or disclaim procedures, are read
//! in address order: each superpage once for all of its objects.
//!
//! The program is `tests/c-alone/dying.c`.

#[path = "support/library.rs"]
mod library;
#[path = "support/lines.rs"]
mod lines;
#[path = "support/programs.rs"]
mod programs;

use lines::before;
use plimsoll_testbed::{SwapFile, skip};
use plimsoll_unit::Bytes;
use programs::{Running, compile, temporary};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);
/// Pages of a superpage.
const PAGES: u64 = 4;

/// Tests run one at a time: concurrent tests would share each other's swap files.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs the program with argument `how`. Each collection reads an absent superpage at most `times`
/// times. The program runs with summaries and without; without them, the objects that are due are
/// exact in all rounds.
fn is_read_at_most(times: u64, how: &str) {
    is_read_by(times, &[how], "bookmarks");
    is_read_by(times, &[how, "exact"], "order");
}

fn is_read_by(times: u64, arguments: &[&str], means: &str) {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let unique = format!("dying-{}-{means}", arguments[0]);
    let Some(program) = compile("tests/c-alone/dying.c", &unique) else {
        return;
    };
    let Ok(_swap) = SwapFile::new(temporary(), Bytes::mib(128)) else {
        skip("no swap of our own here");
        return;
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("GC_PRINT_STATS", "1")
        .env("PLIMSOLL_GC_MEANS", means)
        .env("LD_LIBRARY_PATH", programs::library("dying"));
    let said = Running::start(&mut command, &unique)
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{unique}: {why}"));
    assert!(said.ends_with("sound\n"), "{said}");
    println!("{said}");
    let (_, dying) = said.split_once("they die\n").expect("they do");
    let mut most = 0;
    for line in dying.lines().filter(|line| line.starts_with("gc ")) {
        let absent = before(line, "superpages absent");
        let read = before(line, "read,");
        let faults = before(line, "major faults");
        assert!(read <= absent * times, "{line}");
        // Requested ahead, most pages are in memory when they are scanned.
        assert!(faults * 2 <= read * PAGES + 100, "{line}");
        most = most.max(read);
    }
    assert!(most >= 100, "they were in swap: {said}");
}

#[test]
fn all_that_is_due_is_read_together() {
    is_read_at_most(2, "unordered");
}

/// Superpages are read for the objects that dead ones refer to, for the objects that those refer to, and when
/// objects are due.
#[test]
fn all_that_may_be_due_in_order_is_read_together() {
    is_read_at_most(4, "ordered");
}

#[test]
fn all_that_is_to_be_disclaimed_is_read_together() {
    is_read_at_most(3, "disclaimed");
}
