//! What `/proc` tells about one process, guarded against reuse of its number by its start time.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A process that was alive when it was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number in our pid namespace.
    pub pid: u32,
    /// Clock ticks after boot at which it started.
    pub started: u64,
}

/// The parts of `/proc/PID/status` that the adapters need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its number in its own, innermost pid namespace.
    pub inner_pid: u32,
    /// Effective user.
    pub euid: u32,
    /// Effective group.
    pub egid: u32,
    /// Caught signals, bit `n - 1` for signal `n`.
    pub caught: u64,
    /// Anonymous memory that is resident, bytes.
    pub rss_anon: u64,
    /// Shared memory that is resident, bytes. Pages that are mapped several times count several times.
    pub rss_shmem: u64,
    /// Swapped out, bytes.
    pub swap: u64,
}

impl Process {
    /// Looks a process up.
    pub fn new(pid: u32) -> io::Result<Process> {
        let mut process = Process { pid, started: 0 };
        process.started = process.start_time()?;
        Ok(process)
    }

    /// It still runs, is not a zombie, and its number was not given to another.
    pub fn alive(&self) -> bool {
        self.start_time().is_ok_and(|t| t == self.started)
    }

    /// `/proc/PID/<name>`.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// Opens a directory below the root directory of the process, following links inside of that root only: a
    /// link that a container put there cannot lead us out of it.
    ///
    /// # Errors
    /// What the system says; `NotFound` when the process is gone.
    pub fn inner_directory(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.path("root"), flags | OFlags::PATH, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root, name, flags, Mode::empty(), resolve) {
            Err(Errno::NOSYS) => Ok(rustix::fs::openat(
                &root,
                name,
                flags | OFlags::NOFOLLOW,
                Mode::empty(),
            )?),
            other => Ok(other?),
        }
    }

    /// Sends a signal to this very process, never to a later one with its number.
    ///
    /// # Errors
    /// What the system says; `NotFound` when the process is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(gone)?;
        let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOSYS) if self.alive() => {
                return Ok(rustix::process::kill_process(pid, signal)?);
            }
            Err(e) => return Err(e.into()),
        };
        // The descriptor names whoever had the number when it was opened.
        if !self.alive() {
            return Err(gone());
        }
        Ok(rustix::process::pidfd_send_signal(fd, signal)?)
    }

    /// Its parent; `None` when it is gone.
    pub fn parent(&self) -> Option<u32> {
        let stat = std::fs::read(self.path("stat")).ok()?;
        let end = stat.iter().rposition(|&b| b == b')')?;
        std::str::from_utf8(stat.get(end + 1..)?)
            .ok()?
            .split_ascii_whitespace()
            .nth(1)?
            .parse()
            .ok()
    }

    /// Processor time of all its threads so far, nanoseconds (clock_getcpuclockid(3)).
    pub fn processor_ns(&self) -> Option<u64> {
        let pid = i32::try_from(self.pid).ok()?;
        let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::uninit());
        // SAFETY: both are written to within their size; the time is read only when the kernel has filled it.
        let time = unsafe {
            if libc::clock_getcpuclockid(pid, &mut clock) != 0
                || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
            {
                return None;
            }
            time.assume_init()
        };
        let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        Some(
            seconds
                .ok()?
                .saturating_mul(1_000_000_000)
                .saturating_add(rest.ok()?),
        )
    }

    /// Its major faults so far: pages that it had to wait for the disk for.
    pub fn major_faults(&self) -> Option<u64> {
        let stat = std::fs::read(self.path("stat")).ok()?;
        stat_field(&stat, 12)
    }

    fn start_time(&self) -> io::Result<u64> {
        let stat = std::fs::read(self.path("stat"))?;
        parse_stat(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat"))
    }

    /// Reads `/proc/PID/status`.
    pub fn status(&self) -> io::Result<Status> {
        Ok(parse_status(&String::from_utf8_lossy(&std::fs::read(
            self.path("status"),
        )?)))
    }
}

/// Start time out of `/proc/PID/stat`; `None` for a zombie or a malformed line. The name may hold anything, so
/// the fields are counted from the last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<u64> {
    match stat_fields(stat)?.next()? {
        "Z" | "X" | "x" => None,
        _ => stat_field(stat, 22),
    }
}

/// What follows the name, from the third field on (proc_pid_stat(5)).
fn stat_fields(stat: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace())
}

fn stat_field(stat: &[u8], number: usize) -> Option<u64> {
    stat_fields(stat)?.nth(number - 3)?.parse().ok()
}

fn parse_status(text: &str) -> Status {
    let mut status = Status::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let mut words = value.split_ascii_whitespace();
        let kib = |w: Option<&str>| {
            w.and_then(|w| w.parse::<u64>().ok())
                .unwrap_or(0)
                .saturating_mul(1024)
        };
        let id = |w: Option<&str>| w.and_then(|w| w.parse::<u32>().ok()).unwrap_or(u32::MAX);
        match key {
            "NSpid" => {
                status.inner_pid = words.next_back().and_then(|w| w.parse().ok()).unwrap_or(0)
            }
            "Uid" => status.euid = id(words.nth(1)),
            "Gid" => status.egid = id(words.nth(1)),
            "SigCgt" => {
                status.caught = words
                    .next()
                    .and_then(|w| u64::from_str_radix(w, 16).ok())
                    .unwrap_or(0)
            }
            "RssAnon" => status.rss_anon = kib(words.next()),
            "RssShmem" => status.rss_shmem = kib(words.next()),
            "VmSwap" => status.swap = kib(words.next()),
            _ => {}
        }
    }
    status
}
