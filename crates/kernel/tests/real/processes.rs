//! Processes on the real kernel: reused process ids, descendants, identities, rights.

use crate::common::{PATIENCE, alone, group, start, start_holding};
use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::process::{Process, Walk, descendants, page_size};
use plimsoll_kernel::{Error, smaps};
use plimsoll_testbed::skip;
use plimsoll_unit::{Bytes, MIB};
use std::time::{Duration, Instant};

/// Makes a child with this process id, which waits for signals. `None` if we lack the right to choose it.
pub(crate) fn child_with_number(pid: i32) -> Option<i32> {
    let numbers = [pid];
    let arguments = libc::clone_args {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: if pid > 0 { numbers.as_ptr() as u64 } else { 0 },
        set_tid_size: u64::from(pid > 0),
        cgroup: 0,
    };
    // SAFETY: the arguments are a valid structure of the stated size that outlives the call;
    // without CLONE_VM the child is a copy of this process, and it calls nothing but `pause`.
    let made = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    if made == 0 {
        loop {
            // SAFETY: takes no arguments and is safe after a fork.
            unsafe { libc::pause() };
        }
    }
    (made > 0).then_some(made as i32)
}

pub(crate) fn end(pid: i32) {
    let mut status = 0;
    // SAFETY: `pid` is a child of ours that was not waited for; `status` outlives the call.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &raw mut status, 0);
    }
}

#[test]
fn a_reused_number_is_not_taken_for_the_same_process() {
    let _one = alone();
    let first = child_with_number(0).expect("a process can be made");
    let held = Process::open(first).unwrap();
    assert!(held.alive());
    held.memory_fast().unwrap();
    let started = held.start_time();
    end(first);
    assert!(!held.alive());
    // Start times have a resolution of a clock tick.
    std::thread::sleep(Duration::from_millis(50));
    let Some(second) = child_with_number(first) else {
        skip("numbers cannot be chosen without CAP_CHECKPOINT_RESTORE, or another process took it");
        return;
    };
    assert_eq!(second, first);
    let outcome = std::panic::catch_unwind(|| {
        let other = Process::open(second).unwrap();
        assert!(other.alive() && other.start_time() != started);
        assert!(!held.alive());
        let gone = |e: Error| assert!(e.is_gone(), "{e}");
        gone(held.memory().unwrap_err());
        gone(held.memory_fast().unwrap_err());
        gone(held.faults().unwrap_err());
        gone(held.cmdline().unwrap_err());
        gone(held.exe().unwrap_err());
        gone(smaps::areas(&held, 10).unwrap_err());
        gone(advise(&held, Advice::Cold, Bytes(MIB)).unwrap_err());
        gone(Process::open_known(second, started).unwrap_err());
        assert_eq!(
            Process::open_known(second, other.start_time())
                .unwrap()
                .pid(),
            second
        );
    });
    end(second);
    outcome.unwrap();
}

#[test]
fn a_tree_is_followed_and_summed() {
    let _one = alone();
    let mut root = start(&["tree", "--depth", "2", "--width", "2"], None);
    root.until(PATIENCE, |_| true).unwrap();
    let mut walk = Walk::new(Process::open(root.pid()).unwrap(), 100);
    let end = Instant::now() + PATIENCE;
    while walk.members().len() < 6 {
        assert!(Instant::now() < end, "found {} of 6", walk.members().len());
        walk.rescan().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let totals = walk.totals().unwrap();
    assert_eq!(totals.processes, 7);
    assert!(totals.memory.resident() > Bytes(7 * page_size()) && totals.faults.minor > 0);

    let mut few = Vec::new();
    assert!(!descendants(root.pid(), 3, &mut few).unwrap());
    assert_eq!(few.len(), 3);
    let mut bounded = Walk::new(Process::open(root.pid()).unwrap(), 3);
    bounded.rescan().unwrap();
    assert!(bounded.truncated() && bounded.members().len() == 3);

    root.end().unwrap();
    let gone = walk.rescan();
    assert!(gone.as_ref().is_err_and(Error::is_gone), "{gone:?}");
}

#[test]
fn identities_are_told() {
    let own = Process::own().unwrap();
    // Before it prints something, the process may not have called exec yet.
    let child = start_holding(&["hog", "--bytes", "1M"], None);
    let process = Process::open(child.pid()).unwrap();
    let ids = process.ids().unwrap();
    assert_eq!((ids.uid, ids.parent), (own.uid().unwrap(), own.pid()));
    assert!(ids.inner_pid > 0 && ids.pid_levels >= 1);
    let binary = std::env::current_exe().unwrap();
    assert_eq!(process.exe().unwrap().unwrap(), binary);
    assert_eq!(
        process.cmdline().unwrap()[1..],
        ["--exact", "common::program", "--nocapture"]
    );
    let name = binary.file_name().unwrap().to_string_lossy();
    // The kernel keeps only 15 bytes of the name.
    assert_eq!(process.comm().unwrap(), name[..name.len().min(15)]);
    assert_eq!(process.stat().unwrap().parent, own.pid());
    for impossible in [0, -1, i32::MAX] {
        assert!(Process::open(impossible).is_err());
    }
}

#[test]
fn the_fast_path_agrees_with_the_slow_one() {
    let hog = start_holding(&["hog", "--bytes", "32M"], None);
    let process = Process::open(hog.pid()).unwrap();
    let (fast, slow) = (process.memory_fast().unwrap(), process.memory().unwrap());
    // Before Linux 6.2 each thread may keep up to 64 pages that are not counted yet.
    assert!(slow.anon > Bytes(31 * MIB), "{slow:?}");
    assert!(
        fast.anon().0.abs_diff(slow.anon.0) < MIB
            && fast.resident.0.abs_diff(slow.resident().0) < MIB,
        "{fast:?} {slow:?}"
    );
}

/// Runs `work` as the user nobody, on a thread of its own.
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(move || {
        // SAFETY: the raw calls change the credentials of this thread only, which ends after `work`.
        let dropped = unsafe {
            libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534) == 0
                && libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) == 0
        };
        dropped.then(work)
    });
    let result = thread.join().expect("it ends well");
    if result.is_none() {
        skip("only root can become somebody else");
    }
    result
}

#[test]
fn without_rights_the_error_says_what_is_needed() {
    let _one = alone();
    let Some(group) = group("rights", Some(64 * MIB)) else {
        return;
    };
    let dir = group.cgroup().dir().to_path_buf();
    let hog = start_holding(&["hog", "--bytes", "4M"], Some(&group));
    let pid = hog.pid();
    as_nobody(move || {
        let cgroup = Cgroup::at(&dir).unwrap();
        assert_eq!(cgroup.limit().unwrap(), Some(Bytes::mib(64)));
        for refused in [
            cgroup.set_limit(None).map(|_| ()),
            cgroup.create_child("x").map(|_| ()),
            cgroup.add(pid),
            cgroup.reclaim(Bytes(MIB)).map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert!(error.is_denied(), "{error}");
            assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
        }
        let process = Process::open(pid).unwrap();
        assert!(process.memory().is_ok());
        for refused in [
            smaps::areas(&process, 10).map(|_| ()),
            plimsoll_kernel::referenced::clear(&process),
            advise(&process, Advice::PageOut, Bytes(MIB)).map(|_| ()),
            plimsoll_kernel::advise::advise_ranges(
                &process,
                Advice::PageOut,
                std::slice::from_ref(&(0x1000..0x2000)),
            )
            .map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert!(error.is_denied(), "{error}");
        }
    });
}

#[test]
fn broken_and_absent_groups_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let absent = Cgroup::at(dir.path()).unwrap_err();
    assert!(absent.is_absent(), "{absent}");
    assert!(
        Cgroup::at(std::path::Path::new("/nowhere"))
            .unwrap_err()
            .is_absent()
    );
    for (name, text) in [
        ("memory.limit_in_bytes", "surely\n"),
        ("memory.usage_in_bytes", ""),
        ("memory.stat", "\u{1f4a5} 12\nrss x\n"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let group = Cgroup::at(dir.path()).unwrap();
    assert!(matches!(group.limit(), Err(Error::Broken { .. })));
    assert!(matches!(group.usage(), Err(Error::Broken { .. })));
    assert_eq!(
        group.stat().unwrap(),
        plimsoll_kernel::cgroup::Stat::default()
    );
    let huge = "9".repeat(60);
    std::fs::write(dir.path().join("memory.usage_in_bytes"), huge).unwrap();
    assert_eq!(group.usage().unwrap(), Bytes(u64::MAX));
}

/// A cgroup below our own that can be frozen. It is removed when this is dropped.
struct Freezer {
    dir: std::path::PathBuf,
    states: [&'static str; 2],
    file: &'static str,
}

impl Freezer {
    /// If none can be made, says why and returns `None`.
    fn new() -> Option<Freezer> {
        let name = format!("plimsoll-test-freezer-{}", std::process::id());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let point = |line: &str| line.split(' ').nth(4).map(std::path::PathBuf::from);
        let of = |kind: &str| {
            mounts
                .lines()
                .find(|line| line.contains(kind))
                .and_then(point)
        };
        let first = mounts
            .lines()
            .find(|line| line.contains(" - cgroup ") && line.ends_with("freezer"))
            .and_then(point)
            .map(|top| (top, "freezer.state", ["THAWED", "FROZEN"]));
        let second = of(" - cgroup2 ").map(|top| (top, "cgroup.freeze", ["0", "1"]));
        for (top, file, states) in [first, second].into_iter().flatten() {
            let dir = top.join(&name);
            if std::fs::create_dir(&dir).is_ok() {
                let freezer = Freezer { dir, states, file };
                if freezer.dir.join(file).exists() {
                    return Some(freezer);
                }
            }
        }
        skip("no group of our own can be frozen here");
        None
    }

    fn enter(&self, pid: i32) {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn freeze(&self, freeze: bool) {
        let state = self.states[usize::from(freeze)];
        std::fs::write(self.dir.join(self.file), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.dir.join(self.file), self.states[0]);
        let end = Instant::now() + PATIENCE;
        // The group can be removed only once its processes are gone.
        while std::fs::remove_dir(&self.dir).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_frozen_process_is_told_from_one_that_runs() {
    use plimsoll_kernel::cgroup::is_frozen;
    let own = std::process::id() as i32;
    assert!(!is_frozen(own).unwrap());
    let Some(freezer) = Freezer::new() else {
        return;
    };
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    freezer.enter(pid);
    assert!(!is_frozen(pid).unwrap());
    freezer.freeze(true);
    assert!(is_frozen(pid).unwrap() && !is_frozen(own).unwrap());
    freezer.freeze(false);
    assert!(!is_frozen(pid).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_frozen(pid).is_err_and(|error| error.is_gone()));
}
