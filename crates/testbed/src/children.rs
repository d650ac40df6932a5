//! Children of a test or a measurement. They are in a group from their first instruction on, end
//! with their parent, and are ended in good order.

use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::process::parse_stat;
use plimsoll_kernel::sched::{Parameters, Policy, set_parameters};
use plimsoll_unit::Nanos;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Makes `command` start inside of a group.
///
/// # Errors
/// When its list of processes cannot be opened.
pub fn enter(command: &mut Command, cgroup: &Cgroup) -> io::Result<()> {
    let mut members = OpenOptions::new()
        .write(true)
        .open(cgroup.dir().join("cgroup.procs"))?;
    // SAFETY: between fork and exec only `write` to an open descriptor is called, which is
    // async-signal-safe.
    unsafe {
        command.pre_exec(move || members.write_all(b"0"));
    }
    Ok(())
}

/// Copies a program, with its permissions. Another process does it: a program cannot be started while a
/// process has it open for writing, and a child that another test's thread forks meanwhile would have.
///
/// # Errors
/// When it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let mut command = Command::new("cp");
    command.arg("--").args([from.as_ref(), to.as_ref()]);
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("cp: {status}"))),
    }
}

/// Makes `command` end (SIGTERM) with the thread that starts it, whatever ends that thread.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec one system call is made, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
    }
}

/// Makes `command` run on the first processor, under the usual policy at this nice level, whatever we run
/// under.
pub fn on_one_processor(command: &mut Command, nice: i32) {
    let plain = Parameters {
        policy: Policy::Other,
        nice,
        slice: Nanos(0),
    };
    let mut first = CpuSet::new();
    first.set(0);
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            sched_setaffinity(None, &first)?;
            set_parameters(0, &plain).map_err(|_| io::Error::other("parameters"))
        });
    }
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops a process, and waits until all of its threads stand still. The signal takes a moment to reach them,
/// and a thread that reads a page from the disk goes on until it has it.
///
/// # Panics
/// When the process is gone, or a thread of it does not stand still within `patience`.
pub fn stop(pid: u32, patience: Duration) {
    signal(pid, Signal::STOP);
    let deadline = Instant::now() + patience;
    while !stands_still(pid) {
        assert!(Instant::now() < deadline, "process {pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether all threads of a process are stopped.
///
/// # Panics
/// When the process is gone.
#[must_use]
pub fn stands_still(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    threads.flatten().all(|thread| {
        // One that has just ended stands still, too.
        let stat = std::fs::read(thread.path().join("stat")).unwrap_or_default();
        parse_stat(&stat).is_none_or(|stat| stat.state == b'T')
    })
}

/// Asks a child to end (SIGTERM), kills it after `patience`, and reaps it.
pub fn end(child: &mut Child, patience: Duration) {
    let deadline = Instant::now() + patience;
    if let Ok(None) = child.try_wait() {
        signal(child.id(), Signal::TERM);
    }
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
