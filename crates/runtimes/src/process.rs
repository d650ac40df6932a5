//! What `/proc` tells about one process, guarded against reuse of its number by its start time.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::ClockId;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The most that is read of a process's memory map, bytes.
const MAX_MAPS: u64 = 16 << 20;

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
    /// How many pid namespaces deep it is, from ours: 1 is our own.
    pub levels: usize,
    /// What it does: `R` runs, `S` and `D` wait, `T` and `t` were stopped.
    pub state: u8,
    /// Caught signals, bit `n - 1` for signal `n`.
    pub caught: u64,
    /// Signals that were sent to it and have not reached it yet, likewise.
    pub pending: u64,
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

    /// Its `/tmp`. The root of a process that has capabilities which we have not is closed to us, although it
    /// is ours: then it is our own `/tmp`, and what lies there has yet to be proven that process's.
    ///
    /// # Errors
    /// What the system says; `NotFound` when the process is gone.
    pub fn tmp(&self) -> io::Result<OwnedFd> {
        let closed = match self.inner_directory("tmp") {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => e,
            other => return other,
        };
        if self.status()?.levels != 1 {
            return Err(closed);
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::open("/tmp", flags, Mode::empty())?)
    }

    /// When it started: seconds since 1970, by the clock as it is set now.
    ///
    /// # Errors
    /// A clock that tells nonsense.
    pub fn started_at(&self) -> io::Result<i64> {
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let second = |clock| rustix::time::clock_gettime(clock).tv_sec;
        let lives = second(ClockId::Boottime)
            .checked_sub_unsigned(self.started / ticks)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(second(ClockId::Realtime).saturating_sub(lives))
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
            // Linux before 5.3.
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

/// The memory map of a process, at most 16 MiB of it.
///
/// # Errors
/// What the system says; `PermissionDenied` where we may not look into the process.
pub fn maps(pid: u32) -> io::Result<impl BufRead> {
    let file = File::open(format!("/proc/{pid}/maps"))?;
    Ok(BufReader::with_capacity(64 << 10, file.take(MAX_MAPS)))
}

/// Start time out of `/proc/PID/stat`; `None` for a zombie or a malformed line. The name may hold
/// anything, so the fields are counted from the last parenthesis.
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
        let signals =
            |w: Option<&str>| w.and_then(|w| u64::from_str_radix(w, 16).ok()).unwrap_or(0);
        let id = |w: Option<&str>| w.and_then(|w| w.parse::<u32>().ok()).unwrap_or(u32::MAX);
        match key {
            "NSpid" => {
                status.levels = words.clone().count();
                status.inner_pid = words.next_back().and_then(|w| w.parse().ok()).unwrap_or(0)
            }
            "State" => status.state = words.next().map_or(0, |w| w.as_bytes()[0]),
            "Uid" => status.euid = id(words.nth(1)),
            "Gid" => status.egid = id(words.nth(1)),
            "SigCgt" => status.caught = signals(words.next()),
            // Those of its first thread, and those of all.
            "SigPnd" | "ShdPnd" => status.pending |= signals(words.next()),
            "RssAnon" => status.rss_anon = kib(words.next()),
            "RssShmem" => status.rss_shmem = kib(words.next()),
            "VmSwap" => status.swap = kib(words.next()),
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_far_as_it_goes() {
        let text = "Name:\tjava\nState:\tT (stopped)\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t900\t7\n\
                    RssAnon:\t   12 kB\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000004\n\
                    SigCgt:\t0000000181005ccf\n";
        let status = parse_status(text);
        assert_eq!((status.euid, status.egid), (2, 6));
        assert_eq!((status.inner_pid, status.levels), (7, 2));
        assert_eq!((status.state, status.pending), (b'T', 5));
        assert_eq!((status.caught, status.rss_anon), (0x1_8100_5ccf, 12 << 10));
        for cut in 0..text.len() {
            let _ = parse_status(&text[..cut]);
        }
        for bad in [
            "State:",
            "State:\t\n",
            "NSpid:\n",
            "SigCgt:\tx",
            "Uid:\t1\n",
        ] {
            assert_eq!(parse_status(bad).inner_pid, 0, "{bad}");
        }
    }

    #[test]
    fn a_process_started_when_it_did() {
        let own = Process::new(std::process::id()).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let started = own.started_at().unwrap();
        assert!(
            started <= now + 1 && now - started < 86_400,
            "{started} {now}"
        );
    }
}
