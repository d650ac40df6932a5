//! One process, held safely: a pidfd, the start time, and files of `/proc/PID` that stay bound to it
//! ([`Process`]); or by its number and start time only ([`Handle`]). Our own process: [`own`]. Source: kernel
//! document `proc.rst` 1.1; `pidfd_open(2)`.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `handle` | a process by its number and start time |
//! | `watched` | a process that is looked at many times in a second |
//! | `own` | readings of this process about itself |
//! | `proc_path` | where `/proc` shows a process whose first thread has ended |
//! | `tree` | a process and all its descendants |
//! | `stacks` | stack pointers of threads |
//! | `parse` | parsers of `stat`, `statm` and `status` |

mod handle;
pub mod own;
mod parse;
mod proc_path;
mod stacks;
mod tree;
mod watched;

pub(crate) use handle::MAX_MAPS;
pub use handle::{Handle, Image, variable_of};
pub use parse::{
    Faults, Memory, Stat, Statm, Status, StatusIds, parse_stat, parse_statm, parse_status,
    parse_status_ids, parse_status_signals,
};
pub use proc_path::place;
pub(crate) use proc_path::{by_thread, text_through, through};
pub use stacks::{
    StackPointers, parse_stack_limit, parse_stack_pointer, stack_limit, stack_pointers,
};
pub use tree::{Totals, Walk, descendants, descendants_where, descendants_within, newest, numbers};
pub use watched::Watched;

use crate::reader::Reader;
use crate::{Error, Result, sandbox};
use plimsoll_unit::Bytes;
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Longest `/proc/PID/status`, `/proc/PID/stat` that are read, bytes.
const MAX_STATUS: usize = 8 << 10;
/// Longest command line that is read, bytes.
const MAX_CMDLINE: usize = 128 << 10;

/// A process. If it exits and its number is given to another, every method returns [`Error::Gone`]
/// and never tells about the other.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    start_time: u64,
    pidfd: Option<OwnedFd>,
    stat: Reader,
    status: Reader,
    statm: OnceLock<Reader>,
}

impl Process {
    /// Opens the process that has this number now.
    ///
    /// # Errors
    /// [`Error::Gone`] if there is none or it exited meanwhile; [`Error::Denied`] if `/proc` hides
    /// it (`hidepid`).
    pub fn open(pid: i32) -> Result<Process> {
        Process::open_by(pid, open_pidfd)
    }

    fn open_by(pid: i32, pidfd: impl FnOnce(i32) -> Result<Option<OwnedFd>>) -> Result<Process> {
        if pid <= 0 {
            return Err(Error::Argument {
                what: "process number",
                why: "it must be positive",
            });
        }
        let stat = Reader::open(proc_path(pid, "stat"))?;
        let start_time = read_stat(&stat)?.start_time;
        let pidfd = pidfd(pid)?;
        let status = Reader::open(proc_path(pid, "status"))?;
        // `stat` is bound to one process. If the start time is still the same, the pidfd and
        // `status` that were opened in between belong to it too.
        if read_stat(&stat)?.start_time != start_time {
            return Err(Error::Gone { pid });
        }
        Ok(Process {
            pid,
            start_time,
            pidfd,
            stat,
            status,
            statm: OnceLock::new(),
        })
    }

    /// Opens a process known from before, e.g. from a state file.
    ///
    /// # Errors
    /// As [`Process::open`]; [`Error::Gone`] when the number belongs to another process now.
    pub fn open_known(pid: i32, start_time: u64) -> Result<Process> {
        let process = Process::open(pid)?;
        if process.start_time == start_time {
            Ok(process)
        } else {
            Err(Error::Gone { pid })
        }
    }

    /// This process; without a pidfd where system calls are filtered, because older filters do not know
    /// that call.
    ///
    /// # Errors
    /// As [`Process::open`].
    pub fn own() -> Result<Process> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        if sandbox::is_filtered() {
            Process::open_by(pid, |_| Ok(None))
        } else {
            Process::open(pid)
        }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When it started: clock ticks after boot. Number and start time together identify a process
    /// until the next boot.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Its pidfd, readable once it has exited; `None` on kernels before 5.3.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether it still runs; a zombie does not, unless only its first thread has ended. 0.3 us with a pidfd,
    /// else 3 us.
    pub fn alive(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if let Some(pidfd) = &self.pidfd {
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
            // Readable once it has exited.
            if let Ok(ready) = poll(&mut fds, Some(&now)) {
                return ready == 0;
            }
        }
        match read_stat(&self.stat) {
            Ok(stat) => stat.start_time == self.start_time && !stat.has_ended(),
            Err(_) => false,
        }
    }

    /// Whether it is about to end: its first thread is exiting, and none of the others goes on.
    pub fn is_ending(&self) -> bool {
        let exits = self.stat().is_ok_and(|stat| stat.is_exiting);
        exits && proc_path::living_thread(self.pid).is_none()
    }

    /// The memory that it holds, by kind, with swap, 7-11 us.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Io`].
    pub fn memory(&self) -> Result<Memory> {
        let mut buffer = [0; MAX_STATUS];
        let found = parse_status(self.status.read(&mut buffer)?);
        self.or_of_living("status", found, &mut buffer, parse_status)
    }

    /// Its resident memory, 1.3 us. Does not tell shared memory from files, and has no swap.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn memory_fast(&self) -> Result<Statm> {
        let statm = match self.statm.get() {
            Some(reader) => reader,
            None => {
                let reader = Reader::open(proc_path(self.pid, "statm"))?;
                if !self.alive() {
                    return Err(Error::Gone { pid: self.pid });
                }
                self.statm.get_or_init(|| reader)
            }
        };
        let mut buffer = [0; 256];
        let text = statm.read_line(&mut buffer)?;
        let found = parse_statm(text, Bytes(page_size())).ok_or_else(|| Error::Broken {
            path: statm.path().to_path_buf(),
            why: "fewer than three numbers",
        })?;
        let parse = |text: &[u8]| parse_statm(text, Bytes(page_size())).unwrap_or_default();
        self.or_of_living("statm", found, &mut buffer, parse)
    }

    /// The reading of its first thread, or of a living one if the first has ended and so reads as nothing.
    fn or_of_living<T: Default + PartialEq>(
        &self,
        name: &str,
        found: T,
        buffer: &mut [u8],
        parse: impl Fn(&[u8]) -> T,
    ) -> Result<T> {
        let says_nothing = |found: &T| *found == T::default();
        let found = proc_path::through_living(self.pid, name, Ok(found), says_nothing, |path| {
            Ok(parse(Reader::open(path)?.read(buffer)?))
        });
        match found {
            Ok(found) if says_nothing(&found) || self.alive() => Ok(found),
            Ok(_) => Err(Error::Gone { pid: self.pid }),
            other => other,
        }
    }

    /// Its faults so far.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn faults(&self) -> Result<Faults> {
        Ok(read_stat(&self.stat)?.faults)
    }

    /// Its line of `/proc/PID/stat`.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn stat(&self) -> Result<Stat> {
        read_stat(&self.stat)
    }

    /// The user that it runs as, its parent and its number in its own namespace.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn ids(&self) -> Result<StatusIds> {
        let mut buffer = [0; MAX_STATUS];
        let text = self.status.read(&mut buffer)?;
        parse_status_ids(text).ok_or_else(|| Error::Broken {
            path: self.status.path().to_path_buf(),
            why: "it has no line `Uid`",
        })
    }

    /// The effective user.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn uid(&self) -> Result<u32> {
        Ok(self.ids()?.uid)
    }

    /// The program that it runs; `None` for kernel threads.
    ///
    /// # Errors
    /// [`Error::Denied`] for other users' processes, [`Error::Gone`].
    pub fn exe(&self) -> Result<Option<PathBuf>> {
        let target = through(
            self.pid,
            "exe",
            |_| false,
            |path| std::fs::read_link(path).map_err(|error| Error::of_io("read", path, &error)),
        );
        match target {
            Ok(target) => self.still(Some(target)),
            Err(error) if error.is_absent() || error.is_gone() => self.still(None),
            Err(error) => Err(error),
        }
    }

    /// Whether it is in the same user namespace as we. Where neither namespace can be seen, there is only
    /// one.
    pub fn shares_users(&self) -> bool {
        // The kernel shows it of a first thread that has ended too.
        let users = |of: &dyn Display| std::fs::read_link(proc_path(of, "ns/user")).ok();
        users(&self.pid) == users(&"self")
    }

    /// Its arguments, lossy where they are not UTF-8; at most 128 KiB of them.
    ///
    /// # Errors
    /// As [`Process::exe`].
    pub fn cmdline(&self) -> Result<Vec<String>> {
        let text = text_through(self.pid, "cmdline", MAX_CMDLINE, Vec::is_empty)?;
        let text = text.strip_suffix(b"\0").unwrap_or(&text);
        let arguments = if text.is_empty() {
            Vec::new()
        } else {
            text.split(|&b| b == 0)
                .map(|a| String::from_utf8_lossy(a).into_owned())
                .collect()
        };
        self.still(arguments)
    }

    /// Its short name.
    ///
    /// # Errors
    /// As [`Process::memory`].
    pub fn comm(&self) -> Result<String> {
        let mut buffer = [0; MAX_STATUS];
        let text = self.stat.read(&mut buffer)?;
        Ok(parse::comm(text)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .unwrap_or_default())
    }

    /// The memory cgroup that it is in, or `None` where there is no memory controller.
    ///
    /// # Errors
    /// As [`crate::cgroup::locate`].
    pub fn cgroup(&self) -> Result<Option<crate::cgroup::Location>> {
        self.still(crate::cgroup::locate(self.pid)?)
    }

    /// Returns a value that was read by the process's number, if the number still belonged to this
    /// process afterwards.
    fn still<T>(&self, value: T) -> Result<T> {
        match read_stat(&self.stat) {
            Ok(stat) if stat.start_time == self.start_time => Ok(value),
            _ => Err(Error::Gone { pid: self.pid }),
        }
    }
}

/// The size of a page, bytes.
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// `/proc/PID/NAME`: for what the kernel shows of a process even when its first thread has ended. For the
/// rest: [`place()`].
pub fn proc_path(pid: impl Display, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Whether a process has this number, a zombie too.
pub fn exists(pid: impl Display) -> bool {
    proc_path(pid, "").exists()
}

/// The identity of this boot of the machine; empty where it cannot be read.
pub fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn read_stat(reader: &Reader) -> Result<Stat> {
    let mut buffer = [0; 1024];
    let text = reader.read_line(&mut buffer)?;
    parse_stat(text).ok_or_else(|| Error::Broken {
        path: reader.path().to_path_buf(),
        why: "fewer fields than documented",
    })
}

fn open_pidfd(pid: i32) -> Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(number) = Pid::from_raw(pid) else {
        return Err(Error::Gone { pid });
    };
    match pidfd_open(number, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        // EINVAL, or ENOENT since Linux 6.9: the number belongs to a thread that is not the main thread of a
        // process.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Err(Error::Gone { pid }),
        Err(errno) => Err(Error::Call {
            call: "pidfd_open",
            pid,
            source: errno.into(),
        }),
    }
}
