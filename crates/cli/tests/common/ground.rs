//! Cgroups with limits, and the programs that tests run in them.

use super::{Place, Started, library, wait_for};
use plimsoll_kernel::cgroup::Version;
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::java::compile_into;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::Bytes;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests run one at a time, because there are few processors, and all share the swap.
static ALONE: Mutex<()> = Mutex::new(());

/// A test may use the machine as long as it holds this.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cgroup with this limit. If none can be made, says why and returns `None`.
pub fn group(name: &str, limit: u64) -> Option<TestCgroup> {
    let group = TestCgroup::new(name, Some(Bytes(limit))).ok();
    if group.is_none() {
        skip("no cgroup of our own here");
    }
    group
}

/// A group within another one.
pub fn within(outer: &TestCgroup, name: &str, limit: Option<u64>) -> Option<TestCgroup> {
    let group = TestCgroup::below(outer.cgroup(), name, limit.map(Bytes)).ok();
    if group.is_none() {
        skip("no groups within groups here");
    }
    group
}

/// A swap file that lives as long as a test.
pub fn swap(place: &Place) -> Option<SwapFile> {
    let file = SwapFile::new(&place.path(""), Bytes(1 << 30)).ok();
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
        // A kernel without swap has no such file.
        Version::V2 if !dir.join("memory.swap.max").exists() => Ok(()),
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
    let sources: Vec<PathBuf> = sources.iter().map(|source| root.join(source)).collect();
    if compile_into(&place.path(""), &sources) {
        return Some(place.path("").display().to_string());
    }
    skip("no javac");
    None
}

/// The launcher of the JDK of this version that `tools/setup.sh` put into `.cache`, or the one that `PATH`
/// finds. A test takes another version for each of its cases, so that all are met without the product.
pub fn jdk(version: u32) -> String {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let known = cache.join(format!("java{version}"));
    if known.exists() {
        known.display().to_string()
    } else {
        "java".to_owned()
    }
}

/// The JDK of a test to which the version does not matter.
pub fn java() -> String {
    jdk(17)
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

/// Our program with the agent's and the drop-in's libraries beside it, as in a build tree.
pub fn ours(place: &Place) -> PathBuf {
    let own = place.path("bin/plimsoll");
    std::fs::create_dir_all(place.path("bin")).unwrap();
    let libraries = ["libplimsoll_jvm.so", "libplimsoll_gc.so"].map(library);
    let files = [PathBuf::from(super::OWN)].into_iter().chain(libraries);
    for from in files {
        let to = place.path("bin").join(from.file_name().unwrap());
        if !to.exists() && std::fs::hard_link(&from, &to).is_err() {
            copy_program(from, to).unwrap();
        }
    }
    own
}

/// The freezer of cgroup v1.
const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// The processes of a group, frozen until this is dropped.
pub struct Frozen {
    /// Where they are frozen: in the group itself, or under cgroup v1 in one of the freezer's.
    dir: PathBuf,
    version: Version,
}

/// Freezes the processes of a group, as `docker pause` does. If that cannot be done, says so and returns
/// `None`.
pub fn freeze(group: &TestCgroup) -> Option<Frozen> {
    let (own, version) = (group.cgroup().dir(), group.cgroup().version());
    let dir = match version {
        Version::V1 => Path::new(FREEZER).join(format!("plimsoll-test-{}", std::process::id())),
        Version::V2 => own.to_path_buf(),
    };
    if version == Version::V1 && std::fs::create_dir(&dir).is_err() {
        skip("no freezer here");
        return None;
    }
    let frozen = Frozen { dir, version };
    if version == Version::V1 {
        frozen.takes(own);
    }
    frozen.set(true).unwrap();
    wait_for("all are frozen", || frozen.stands().then_some(()));
    Some(frozen)
}

impl Frozen {
    /// Moves the processes of another group here, and those that they start meanwhile.
    fn takes(&self, from: &Path) {
        let read = |dir: &Path| std::fs::read_to_string(dir.join("cgroup.procs")).unwrap();
        for _ in 0..3 {
            for pid in read(from).lines() {
                // A process that has just ended cannot be moved.
                let _ = std::fs::write(self.dir.join("cgroup.procs"), pid);
            }
        }
    }

    fn set(&self, frozen: bool) -> std::io::Result<()> {
        match self.version {
            Version::V1 => {
                let state = if frozen { "FROZEN" } else { "THAWED" };
                std::fs::write(self.dir.join("freezer.state"), state)
            }
            Version::V2 => {
                let state = if frozen { "1" } else { "0" };
                std::fs::write(self.dir.join("cgroup.freeze"), state)
            }
        }
    }

    fn stands(&self) -> bool {
        let read = |name: &str| std::fs::read_to_string(self.dir.join(name)).unwrap();
        match self.version {
            Version::V1 => read("freezer.state").trim() == "FROZEN",
            Version::V2 => read("cgroup.events").contains("frozen 1"),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.set(false);
        if self.version == Version::V2 {
            return;
        }
        let all = std::fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for pid in all.lines() {
            let _ = std::fs::write(Path::new(FREEZER).join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}
