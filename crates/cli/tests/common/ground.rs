//! Groups with limits to try programs in, and what runs there.

use super::{Place, Started};
use plimsoll_kernel::cgroup::Version;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const MIB: u64 = 1 << 20;

/// One at a time: there are few processors, and one swap.
static ALONE: Mutex<()> = Mutex::new(());

/// Whoever holds it may use the machine.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group with that limit; `None`, and a word, where there can be none.
pub fn group(name: &str, limit: u64) -> Option<TestCgroup> {
    let group = TestCgroup::new(name, Some(limit)).ok();
    if group.is_none() {
        skip("no cgroup of our own here");
    }
    group
}

/// A group within another one.
pub fn within(outer: &TestCgroup, name: &str, limit: Option<u64>) -> Option<TestCgroup> {
    let group = TestCgroup::below(outer.cgroup(), name, limit).ok();
    if group.is_none() {
        skip("no groups within groups here");
    }
    group
}

/// Swap for the time of a test.
pub fn swap(place: &Place) -> Option<SwapFile> {
    let file = SwapFile::new(&place.path(""), 1 << 30).ok();
    if file.is_none() {
        skip("no swap file of our own here");
    }
    file
}

/// Nothing of that group can be paged out, whatever swap the machine has.
pub fn without_swap(group: &TestCgroup, limit: u64) -> bool {
    let dir = group.cgroup().dir();
    let bounded = match group.cgroup().version() {
        Version::V1 => std::fs::write(dir.join("memory.memsw.limit_in_bytes"), limit.to_string())
            .and_then(|()| std::fs::write(dir.join("memory.swappiness"), "0")),
        Version::V2 => std::fs::write(dir.join("memory.swap.max"), "0"),
    };
    if bounded.is_err() {
        skip("swap of a group cannot be bounded here");
    }
    bounded.is_ok()
}

/// How many programs the kernel ended in that group.
pub fn killed(group: &TestCgroup) -> u64 {
    group.cgroup().events().map_or(0, |events| events.oom_kill)
}

/// Java programs of ours, compiled; `None`, and a word, where there is no compiler.
pub fn classes(place: &Place, sources: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-d"]).arg(place.path(""));
    javac.args(sources.iter().map(|source| root.join(source)));
    if javac.status().is_ok_and(|status| status.success()) {
        return Some(place.path("").display().to_string());
    }
    skip("no javac");
    None
}

/// The JDKs that `tools/setup.sh` left, or the one of the path.
pub fn javas() -> Vec<PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let known = [17, 25].map(|version| cache.join(format!("java{version}")));
    let found: Vec<_> = known.into_iter().filter(|java| java.exists()).collect();
    match found.is_empty() {
        true => vec!["java".into()],
        false => found,
    }
}

/// The first of them.
pub fn java() -> String {
    javas()[0].display().to_string()
}

/// Makes what the command starts begin in that group.
pub fn enter(command: &mut Command, group: &TestCgroup) {
    let procs = group.cgroup().dir().join("cgroup.procs");
    // SAFETY: the child has one thread; what is called between fork and exec allocates a little,
    // which glibc allows there.
    unsafe { command.pre_exec(move || std::fs::write(&procs, "0")) };
}

/// Starts `plimsoll run -n NAME -- WORDS` in that group; its output goes to `NAME.out`. Its input stays open.
pub fn run_in(place: &Place, group: &TestCgroup, name: &str, words: &[&str]) -> Started {
    let mut command = place.command(&[&["run", "-n", name, "--"], words].concat());
    enter(&mut command, group);
    let file = |end: &str| std::fs::File::create(place.path(&format!("{name}{end}"))).unwrap();
    command.stdin(Stdio::piped());
    command.stdout(file(".out")).stderr(file(".errors"));
    Started(command.spawn().unwrap())
}

/// What a program printed.
pub fn printed(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(&format!("{name}.out"))).unwrap_or_default()
}
