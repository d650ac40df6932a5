//! Memory pressure: a cgroup with a limit, and swap.

use crate::stage::{self, Page, Running, churn, with};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{SwapFile, TestCgroup};
use plimsoll_unit::{Bytes, Pages};
use std::path::Path;
use std::time::{Duration, Instant};

const MB: Bytes = Bytes(plimsoll_unit::MB);
/// A program that sleeps and holds the same for this many looks is in its pause.
const STILL: usize = 15;
const PATIENCE: Duration = Duration::from_secs(60);

fn open(program: &Running) -> Process {
    Process::open(program.pid() as i32).expect("it lives")
}

fn major_faults(program: &Running) -> u64 {
    open(program).faults().expect("it lives").major
}

/// Anonymous memory: resident, and in swap.
fn holds(program: &Running) -> (Bytes, Bytes) {
    let memory = open(program).memory().expect("it lives");
    (memory.anon, memory.swap)
}

/// The command line that starts the same program in a group.
fn within(group: &TestCgroup, argv: Vec<String>) -> Vec<String> {
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec \"$@\"",
        group.cgroup().dir().display()
    );
    ["sh", "-c", &script, "sh"]
        .map(str::to_owned)
        .into_iter()
        .chain(argv)
        .collect()
}

fn until_asleep(program: &mut Running) {
    let mut seen = vec![Bytes::ZERO];
    while seen.len() < STILL {
        std::thread::sleep(Duration::from_millis(100));
        let uses = program.uses();
        // One that only waits for a processor or for a page does not sleep.
        let sleeps = open(program).stat().expect("it lives").state == b'S';
        if seen.last() != Some(&uses) || !sleeps {
            seen.clear();
        }
        seen.push(uses);
    }
}

#[test]
fn garbage_that_is_in_swap_is_thrown_away_unread() {
    let Some(churn) = churn() else { return };
    let Ok(group) = TestCgroup::new("libgc-swap", None) else {
        return println!("skipped: no cgroup of our own here");
    };
    let Ok(_swap) = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes(1 << 30)) else {
        return println!("skipped: no swap of our own here");
    };
    let page = Page::new(MB * 300);
    let argv = with(&churn, &["20", "600", "30", "600"]);
    let mut program = stage::start(&page, &within(&group, argv));
    program.until("fills its heap", |uses| uses > MB * 150);
    until_asleep(&mut program);
    // The kernel refuses a limit while it has not paged out enough.
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = group.cgroup().set_limit(Some(MB * 140)) {
        assert!(Instant::now() < deadline, "{error}");
    }
    let (before, (_, swapped)) = (major_faults(&program), holds(&program));
    assert!(swapped > MB * 40, "the kernel swapped {swapped}");
    page.set(MB * 120);
    let mut patience = 600;
    while holds(&program).0 + holds(&program).1 > MB * 110 {
        patience -= 1;
        assert!(patience > 0, "it still holds {:?}", holds(&program));
        std::thread::sleep(Duration::from_millis(100));
    }
    // A collection reads the live data, about half of all; garbage is not read.
    let read = Pages(major_faults(&program) - before).bytes();
    assert!(read < swapped / 4 * 3, "{read} of {swapped} were read");
}
