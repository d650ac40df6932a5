//! Cgroups with limits, and the programs that tests run in them.

use super::{Place, Started, library};
use plimsoll_kernel::cgroup::Version;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const MIB: u64 = 1 << 20;

/// Tests run one at a time, because there are few processors, and all share the swap.
static ALONE: Mutex<()> = Mutex::new(());

/// A test may use the machine as long as it holds this.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cgroup with this limit. If none can be made, says why and returns `None`.
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

/// A swap file that lives as long as a test.
pub fn swap(place: &Place) -> Option<SwapFile> {
    let file = SwapFile::new(&place.path(""), 1 << 30).ok();
    if file.is_none() {
        skip("no swap file of our own here");
    }
    file
}

/// Makes sure that nothing of the group can be paged out, even if the machine has swap. Returns whether that
/// was possible.
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

/// Compiles Java programs of ours, and returns the folder of their classes. Without a compiler, says so and
/// returns `None`.
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

/// The JDKs that `tools/setup.sh` put into `.cache`, or the one that `PATH` finds.
pub fn javas() -> Vec<PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let known = [17, 25].map(|version| cache.join(format!("java{version}")));
    let found: Vec<_> = known.into_iter().filter(|java| java.exists()).collect();
    match found.is_empty() {
        true => vec!["java".into()],
        false => found,
    }
}

/// The first of these JDKs.
pub fn java() -> String {
    javas()[0].display().to_string()
}

/// Makes the process of the command start in the group.
pub fn enter(command: &mut Command, group: &TestCgroup) {
    let procs = group.cgroup().dir().join("cgroup.procs");
    // SAFETY: the child has one thread. The code between fork and exec allocates a little memory, which glibc
    // allows there.
    unsafe { command.pre_exec(move || std::fs::write(&procs, "0")) };
}

/// Starts `plimsoll run -n NAME -- WORDS` in the group. Its output goes to `NAME.out`; its input stays open.
pub fn run_in(place: &Place, group: &TestCgroup, name: &str, words: &[&str]) -> Started {
    let mut command = place.command(&[&["run", "-n", name, "--"], words].concat());
    enter(&mut command, group);
    let file = |end: &str| std::fs::File::create(place.path(&format!("{name}{end}"))).unwrap();
    command.stdin(Stdio::piped());
    command.stdout(file(".out")).stderr(file(".errors"));
    Started(command.spawn().unwrap())
}

/// The output of a program so far.
pub fn printed(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(&format!("{name}.out"))).unwrap_or_default()
}

/// Our program with the agent's library beside it, as in a build tree.
pub fn ours(place: &Place) -> PathBuf {
    let own = place.path("bin/plimsoll");
    let agent = library("libplimsoll_jvm.so");
    std::fs::create_dir_all(place.path("bin")).unwrap();
    for (from, to) in [
        (PathBuf::from(env!("CARGO_BIN_EXE_plimsoll")), own.clone()),
        (agent, place.path("bin/libplimsoll_jvm.so")),
    ] {
        if !to.exists() && std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(from, to).unwrap();
        }
    }
    own
}
