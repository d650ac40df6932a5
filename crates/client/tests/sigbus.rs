//! The guard against SIGBUS. Each case runs in a process of its own, because signal handlers belong to a
//! process.

mod fake;

use fake::{Fake, Script, WITHIN, directory, eventually, numbers};
use plimsoll_client::{Builder, Principal, Socket, Source};
use plimsoll_unit::{Bytes, MIB};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Exit status of our own handler.
const HANDLED: i32 = 42;

/// Runs the test of this name again, in a new process with the variable `WITHIN`.
fn in_own_process(name: &str) -> Option<ExitStatus> {
    if std::env::var_os(WITHIN).is_some() {
        return None;
    }
    let directory = directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(WITHIN, directory.path());
    Some(command.status().unwrap())
}

fn builder(fake: &Fake) -> Builder {
    Principal::builder("sigbus")
        .socket(Socket::at(fake.socket()))
        .timeout(Duration::from_secs(60))
}

fn truncate(fake: &Fake) {
    // A broker that goes on would write to its own descriptor, which would make the file longer again. A
    // frozen one does not.
    fake.state(|state| state.frozen = true);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(fake.page(1))
        .unwrap();
    file.set_len(0).unwrap();
}

/// Touches a mapping of an empty file: a SIGBUS outside of our pages.
fn fault_elsewhere() -> u8 {
    let file = tempfile::tempfile_in("/tmp").unwrap();
    file.set_len(4096).unwrap();
    // SAFETY: a new mapping of a file of our own.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    file.set_len(0).unwrap();
    // SAFETY: mapped for reading; raises SIGBUS, which is what the test wants.
    unsafe { base.cast::<u8>().read_volatile() }
}

fn disposition() -> usize {
    // SAFETY: plain data; only reads the disposition.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut now);
        now.sa_sigaction
    }
}

extern "C" fn exit_handled(_: libc::c_int) {
    // SAFETY: _exit may be called in a handler.
    unsafe { libc::_exit(HANDLED) };
}

fn install(handler: usize) {
    // SAFETY: plain data; exit_handled has the signature of a plain handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

#[test]
fn a_truncated_page_costs_nobody_the_life() {
    if let Some(status) = in_own_process("a_truncated_page_costs_nobody_the_life") {
        assert!(status.success(), "{status}");
        return;
    }
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    assert_eq!(principal.limit(), Bytes::mib(100));
    truncate(&fake);
    // Every read in between gives valid numbers: the last ones, marked as stale, or those from the stream.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let reading = principal.read();
                    assert_eq!(reading.limit, 100 * MIB, "{reading:?}");
                    assert_ne!(reading.source, Source::Local);
                }
            });
        }
    });
    eventually("the stream takes over", || {
        principal.read().source == Source::Broker
    });
    fake.publish(1, numbers(50 * MIB));
    eventually("and goes on", || principal.limit() == Bytes::mib(50));
    fake.kill();
    eventually("then local sensing", || {
        principal.read().source == Source::Local
    });
}

#[test]
fn faults_elsewhere_kill_as_they_did() {
    if let Some(status) = in_own_process("faults_elsewhere_kill_as_they_did") {
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
        return;
    }
    install(libc::SIG_DFL);
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let _principal = builder(&fake).open().unwrap();
    fault_elsewhere();
}

#[test]
fn faults_elsewhere_go_to_the_handler_that_was_there() {
    if let Some(status) = in_own_process("faults_elsewhere_go_to_the_handler_that_was_there") {
        assert_eq!(status.code(), Some(HANDLED), "{status}");
        return;
    }
    install(exit_handled as *const () as usize);
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    truncate(&fake);
    assert_eq!(principal.limit(), Bytes::mib(100), "our own fault is ours");
    // The guard may be removed with the first page. A second page keeps it.
    let _other = builder(&fake).open().unwrap();
    fault_elsewhere();
}

#[test]
fn a_signal_that_was_sent_is_no_fault_of_the_page() {
    if let Some(status) = in_own_process("a_signal_that_was_sent_is_no_fault_of_the_page") {
        assert_eq!(status.code(), Some(HANDLED), "{status}");
        return;
    }
    install(exit_handled as *const () as usize);
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let _principal = builder(&fake).open().unwrap();
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGBUS) };
}

#[test]
fn the_disposition_is_given_back_and_can_be_left_alone() {
    if let Some(status) = in_own_process("the_disposition_is_given_back_and_can_be_left_alone") {
        assert!(status.success(), "{status}");
        return;
    }
    let mine = exit_handled as *const () as usize;
    install(mine);
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let unguarded = builder(&fake).guard(false).open().unwrap();
    assert_eq!(disposition(), mine);
    let guarded = builder(&fake).open().unwrap();
    let another = builder(&fake).open().unwrap();
    assert_ne!(disposition(), mine);
    drop(guarded);
    assert_ne!(disposition(), mine, "the last one takes it away");
    drop(another);
    assert_eq!(disposition(), mine);
    drop(unguarded);
    let alone = Principal::builder("alone").alone().open().unwrap();
    assert_eq!(disposition(), mine, "no page, no guard");
    drop(alone);
    // A handler that is installed later than the guard stays.
    let guarded = builder(&fake).open().unwrap();
    install(libc::SIG_IGN);
    drop(guarded);
    assert_eq!(disposition(), libc::SIG_IGN);
    let again = builder(&fake).open().unwrap();
    assert_eq!(again.limit(), Bytes::mib(100));
}

#[test]
fn threads_take_no_signal_that_is_meant_for_the_program() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let _principal = builder(&fake).open().unwrap();
    // A thread sets its name when it first runs, so the name is waited for.
    let mut status = String::new();
    eventually("a thread of that name", || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .flatten()
            .any(|task| {
                let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
                name.trim() == "plimsoll"
            })
    });
    let blocked = status
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .unwrap();
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    for signal in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGCHLD,
        libc::SIGUSR1,
        libc::SIGPWR,
    ] {
        assert_ne!(blocked & 1 << (signal - 1), 0, "signal {signal}");
    }
    for fault in [libc::SIGBUS, libc::SIGSEGV] {
        assert_eq!(blocked & 1 << (fault - 1), 0, "signal {fault}");
    }
}
