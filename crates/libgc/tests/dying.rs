//! What dies in swap and is wanted once more, for finalizers or disclaim procedures, is read in the
//! order of addresses: once for all of a superpage, however many of its objects there are.
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
use programs::{Running, compile, temporary};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);
/// Pages of a superpage.
const PAGES: u64 = 4;

/// One at a time: swap files of tests that run at once would be used in turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs the program this way; each collection reads a superpage that is absent so many times at
/// most. With summaries, and without, where what is due is exact in all rounds.
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
    let Ok(_swap) = SwapFile::new(temporary(), 128 << 20) else {
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
        // Asked for ahead, most are there when they are looked into.
        assert!(faults * 2 <= read * PAGES + 100, "{line}");
        most = most.max(read);
    }
    assert!(most >= 100, "they were in swap: {said}");
}

#[test]
fn all_that_is_due_is_read_together() {
    is_read_at_most(2, "unordered");
}

/// For what they refer to, for what those do, and when they are due.
#[test]
fn all_that_may_be_due_in_order_is_read_together() {
    is_read_at_most(4, "ordered");
}

#[test]
fn all_that_is_to_be_disclaimed_is_read_together() {
    is_read_at_most(3, "disclaimed");
}
