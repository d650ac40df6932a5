//! In a group without swap, a program that exceeds the limit is killed. With this library a program
//! must survive wherever it does with libgc, and take no more memory.
//!
//! The program is `tests/c-alone/cliff.c`. It runs with libgc first, which shows how much memory it
//! needs, and then with this library in the same amount.

#[path = "support/library.rs"]
mod library;
#[path = "support/programs.rs"]
mod programs;

use plimsoll_kernel::cgroup::Version;
use plimsoll_testbed::{TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use programs::{Running, compile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
/// More bytes than any of the programs takes.
const ENOUGH: u64 = 400 * MIB;

/// Tests run one at a time: there are few processors.
static ALONE: Mutex<()> = Mutex::new(());

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| compile("tests/c-alone/cliff.c", "cliff"))
        .as_deref()
}

/// A group with this limit in bytes. Nothing of it can be paged out, even if the machine has swap.
fn group(limit: u64) -> Option<TestCgroup> {
    let Ok(group) = TestCgroup::new("libgc-cliff", Some(Bytes(limit))) else {
        skip("no cgroup of our own here");
        return None;
    };
    if without_swap(&group, limit).is_err() {
        skip("swap of a group cannot be bounded here");
        return None;
    }
    Some(group)
}

/// Sees to it that nothing of a group with this limit can be paged out.
fn without_swap(group: &TestCgroup, limit: u64) -> std::io::Result<()> {
    let directory = group.cgroup().dir();
    match group.cgroup().version() {
        Version::V1 => fs::write(
            directory.join("memory.memsw.limit_in_bytes"),
            limit.to_string(),
        )
        .or_else(|_| fs::write(directory.join("memory.swappiness"), "0")),
        Version::V2 => fs::write(directory.join("memory.swap.max"), "0"),
    }
}

/// The most bytes that a group ever held. `None` if the kernel does not say.
fn peak(group: &TestCgroup) -> Option<u64> {
    let directory = group.cgroup().dir();
    ["memory.max_usage_in_bytes", "memory.peak"]
        .into_iter()
        .find_map(|name| fs::read_to_string(directory.join(name)).ok())
        .and_then(|text| text.trim().parse().ok())
}

/// Starts the program in a group, with this library or the system's.
fn start(group: &TestCgroup, ours: bool, arguments: &[&str]) -> Option<Running> {
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec \"$@\"",
        group.cgroup().dir().display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh"])
        .arg(program()?)
        .args(arguments);
    if ours {
        command.env("LD_LIBRARY_PATH", programs::library("cliff-library"));
    } else {
        command.env_remove("LD_LIBRARY_PATH");
    }
    let unique = format!("cliff-{}-{ours}", arguments[0]);
    Some(Running::start(&mut command, &unique))
}

/// Runs the program to its end with this limit, and returns the most bytes that it took. `None` if that
/// cannot be tried.
fn run(limit: u64, ours: bool, arguments: &[&str]) -> Option<u64> {
    let group = group(limit)?;
    let said = start(&group, ours, arguments)?
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{arguments:?} in {} MiB: {why}", limit / MIB));
    assert!(said.ends_with("sound\n"), "{said}");
    peak(&group)
}

/// With plenty of memory, the program takes no more with this library than with libgc; and it
/// survives with as much memory as it took with libgc.
fn lives_where_libgc_does(shape: &str, live_mb: &str, rounds: &str) {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let arguments = [shape, live_mb, rounds];
    let Some(theirs) = run(ENOUGH, false, &arguments) else {
        return;
    };
    let Some(ours) = run(ENOUGH, true, &arguments) else {
        return;
    };
    let least = run(theirs, true, &arguments).unwrap_or(0);
    println!(
        "{shape}: libgc {} MiB, ours {}, in as much as libgc's {}",
        theirs / MIB,
        ours / MIB,
        least / MIB
    );
    // The kernel's charging granularity and the libraries' own sizes differ a little.
    assert!(ours <= theirs + theirs / 32, "{ours} above {theirs}");
}

#[test]
fn small_objects_that_die_at_random() {
    lives_where_libgc_does("nodes", "20", "4000000");
}

#[test]
fn more_small_objects_that_die_at_random() {
    lives_where_libgc_does("nodes", "50", "4000000");
}

#[test]
fn half_of_them_at_once() {
    lives_where_libgc_does("burst", "30", "4000000");
}

#[test]
fn large_objects() {
    lives_where_libgc_does("large", "40", "5000");
}

#[test]
fn objects_of_many_sizes() {
    lives_where_libgc_does("mixed", "30", "1200000");
}

#[test]
fn beside_memory_that_grows() {
    lives_where_libgc_does("native", "30", "6000000");
}

#[test]
fn by_four_threads() {
    lives_where_libgc_does("threads", "40", "4000000");
}

/// libgc takes twice the live data. This library makes do with a quarter more than the live data,
/// and never reaches the limit.
#[test]
fn in_hardly_more_than_what_lives() {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let limit = 64 * MIB;
    let Some(group) = group(limit) else { return };
    let Some(running) = start(&group, true, &["nodes", "40", "1000000"]) else {
        return;
    };
    let said = running.end(PATIENCE).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.ends_with("sound\n"), "{said}");
    let events = group.cgroup().events().expect("a group of ours");
    assert_eq!((events.max, events.oom_kill), (0, 0), "{events:?}");
}

/// Sends the program a signal.
fn signal(running: &Running, signal: libc::c_int) {
    // SAFETY: only a signal, to a child that was not waited for.
    assert_eq!(unsafe { libc::kill(running.child.id() as i32, signal) }, 0);
}

/// Stops the program (SIGSTOP), and returns when all its threads stand.
fn stand(running: &Running) {
    signal(running, libc::SIGSTOP);
    // SAFETY: an empty value is valid.
    let mut what: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: a child of ours, whose end is left to be waited for.
    let waited = unsafe {
        let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        libc::waitid(libc::P_PID, running.child.id(), &mut what, options)
    };
    assert_eq!(
        (waited, what.si_code),
        (0, libc::CLD_STOPPED),
        "it has ended"
    );
}

/// The limit falls while the program runs, to little more than the program's memory at that time. The program
/// stays below it.
#[test]
fn a_limit_falls_to_what_it_holds() {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    // With more, a heap of this size would look only once per second.
    let Some(group) = group(160 * MIB) else {
        return;
    };
    let Some(mut running) = start(&group, true, &["nodes", "30", "6000000"]) else {
        return;
    };
    let least = 30 * MIB;
    while group.cgroup().usage().expect("a group of ours") < Bytes(least) && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The program stands meanwhile: otherwise it may use up all that is left above before the limit falls.
    stand(&running);
    let limit = group.cgroup().usage().expect("a group of ours") + Bytes::mib(16);
    group
        .cgroup()
        .set_limit(Some(limit))
        .expect("more than it holds");
    // On v1 the bound of memory and swap together is lowered too: what it is above the limit is swap.
    without_swap(&group, limit.0).expect("as at the beginning");
    signal(&running, libc::SIGCONT);
    let said = running.end(PATIENCE).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.ends_with("sound\n"), "{said}");
    let events = group.cgroup().events().expect("a group of ours");
    assert_eq!(events.oom_kill, 0, "{events:?}");
}
