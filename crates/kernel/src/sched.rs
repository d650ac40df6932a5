//! Scheduling parameters of single threads: `sched_getattr(2)`, `sched_setattr(2)`; what a thread used and
//! how long it waited for a processor: `/proc/PID/task/TID/schedstat` (kernel document `sched-stats.rst`).
//!
//! Three parameters of ordinary threads are read and set: the idle policy, the nice level, and the slice: the
//! processor time that a thread asks for at once (since Linux 6.12). The runnable thread with the shorter
//! slice goes first; the slice does not change how much a thread gets in the end.

use crate::parse::{number, words};
use crate::process::{Process, proc_path};
use crate::reader::Reader;
use crate::{Error, Result};
use plimsoll_unit::Nanos;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`: by its nice level.
    Other,
    /// `SCHED_BATCH`: the same, but it does not interrupt others when it wakes.
    Batch,
    /// `SCHED_IDLE`: a weight of 3, where nice 0 has 1024 and nice 19 has 15.
    Idle,
    /// A policy of real time, or one that is not known here.
    Special,
}

/// The scheduling parameters of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Its policy.
    pub policy: Policy,
    /// Its nice level, -20 to 19; a lower one gets more.
    pub nice: i32,
    /// Its slice. When read: what it has, its own or the kernel's; 0 before Linux 6.12. When
    /// set: 0 is the kernel's, which is the same for all threads.
    pub slice: Nanos,
}

/// The shortest and the longest slice that the kernel takes (`kernel/sched/syscalls.c`).
pub const SLICES: std::ops::RangeInclusive<Nanos> = Nanos(100_000)..=Nanos::millis(100);

/// The structure that the kernel reads and writes (`linux/sched/types.h`, first version: 48 bytes).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// A flag of [`Attributes::flags`]: children do not inherit.
const RESET_ON_FORK: u64 = 1;

/// Reads the parameters of a thread; 0 is the calling one. 0.3 µs.
///
/// # Errors
/// [`Error::Gone`]; [`Error::Call`].
pub fn parameters(tid: i32) -> Result<Parameters> {
    let found = attributes(tid)?;
    Ok(Parameters {
        policy: match i32::try_from(found.policy) {
            Ok(libc::SCHED_OTHER) => Policy::Other,
            Ok(libc::SCHED_BATCH) => Policy::Batch,
            Ok(libc::SCHED_IDLE) => Policy::Idle,
            _ => Policy::Special,
        },
        nice: found.nice,
        slice: Nanos(found.runtime),
    })
}

fn attributes(tid: i32) -> Result<Attributes> {
    let mut found = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: the kernel writes at most `size` bytes to `found`, which outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, size, 0) };
    match done {
        0 => Ok(found),
        _ => Err(failed("sched_getattr", tid)),
    }
}

/// Sets the parameters of a thread; 0 is the calling one. Whether its children inherit them stays as it is.
/// 0.4 µs.
///
/// A number may be given to another thread at any time. A caller that holds a [`ThreadClock`] of the thread
/// and reads it after this knows whether it was the right one.
///
/// # Errors
/// [`Error::NotPermitted`] for another user's thread, and for a lower nice level or away from the idle
/// policy without the right to ([`Rights::lower`]); [`Error::Gone`]; [`Error::Argument`] for a special
/// policy.
pub fn set_parameters(tid: i32, wanted: &Parameters) -> Result<()> {
    let policy = match wanted.policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::Special => {
            return Err(Error::Argument {
                what: "policy",
                why: "only those of ordinary threads are set",
            });
        }
    };
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: policy.unsigned_abs(),
        flags: attributes(tid)?.flags & RESET_ON_FORK,
        nice: wanted.nice,
        runtime: match wanted.slice {
            Nanos(0) => 0,
            slice => slice.clamp(*SLICES.start(), *SLICES.end()).0,
        },
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of `attributes`, which outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    match done {
        0 => Ok(()),
        _ => Err(failed("sched_setattr", tid)),
    }
}

fn failed(call: &'static str, tid: i32) -> Error {
    let source = std::io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::ESRCH) => Error::Gone { pid: tid },
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Error::NotPermitted {
            call,
            pid: tid,
            needs: "the same user, and CAP_SYS_NICE or a limit RLIMIT_NICE to undo a higher nice level",
        },
        _ => Error::Call {
            call,
            pid: tid,
            source,
        },
    }
}

/// The parameters that this kernel and our rights allow for threads of our user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// A nice level that was raised can be lowered again, and the idle policy be left.
    pub lower: bool,
    /// Slices can be set.
    pub slices: bool,
    /// The slice of threads that have none of their own; 0 where there are none.
    pub slice: Nanos,
}

impl Rights {
    /// Finds out by trying with a thread that is made for it.
    pub fn find() -> Rights {
        let thread = std::thread::Builder::new().name("sched-rights".into());
        let tried = thread.spawn(Rights::of_this_thread).map(|it| it.join());
        tried.ok().and_then(|tried| tried.ok()).unwrap_or(Rights {
            lower: false,
            slices: false,
            slice: Nanos(0),
        })
    }

    /// Leaves the thread with other parameters.
    fn of_this_thread() -> Rights {
        let nice = parameters(0).map_or(19, |own| own.nice);
        // Threads of the idle policy have no slice; without the right to lower they cannot leave it.
        let ordinary = Parameters {
            policy: Policy::Other,
            nice,
            slice: Nanos(0),
        };
        let sliced = Parameters {
            slice: *SLICES.end(),
            ..ordinary
        };
        let slices = set_parameters(0, &sliced).is_ok()
            && parameters(0).is_ok_and(|found| found.slice == sliced.slice);
        let restored = set_parameters(0, &ordinary).and_then(|()| parameters(0));
        let higher = Parameters {
            nice: 19,
            ..ordinary
        };
        let lower = set_parameters(0, &higher).is_ok()
            && set_parameters(0, &Parameters { nice: 18, ..higher }).is_ok();
        Rights {
            lower,
            slices,
            slice: restored.map_or(Nanos(0), |found| found.slice),
        }
    }
}

/// Processor time of a thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Time on a processor.
    pub ran: Nanos,
    /// Time in which it was ready but did not run. The present wait is added when it is over.
    pub waited: Nanos,
    /// How often it got a processor.
    pub turns: u64,
}

/// Reads what one thread used. Bound to the thread: when it has ended, reading fails, even if its number was
/// given to another.
#[derive(Debug)]
pub struct ThreadClock {
    reader: Reader,
}

impl ThreadClock {
    /// Opens that of a thread of a process. It takes a descriptor.
    ///
    /// # Errors
    /// [`Error::Gone`] or [`Error::Absent`] if there is no such thread; [`Error::Absent`] where the kernel
    /// does not count (`CONFIG_SCHED_INFO`); [`Error::Io`] when no more files can be opened.
    pub fn open(process: &Process, tid: i32) -> Result<ThreadClock> {
        let path = proc_path(process.pid(), &format!("task/{tid}/schedstat"));
        let reader = Reader::open(path)?;
        if process.alive() {
            Ok(ThreadClock { reader })
        } else {
            Err(Error::Gone { pid: process.pid() })
        }
    }

    /// Its processor time until now, 1 µs.
    ///
    /// # Errors
    /// [`Error::Gone`] once the thread has ended; [`Error::Broken`].
    pub fn read(&self) -> Result<Ran> {
        let mut buffer = [0; 128];
        let text = self.reader.read_line(&mut buffer)?;
        parse_schedstat(text).ok_or_else(|| Error::Broken {
            path: self.reader.path().to_path_buf(),
            why: "fewer than three numbers",
        })
    }
}

/// Parses `/proc/PID/task/TID/schedstat`.
pub fn parse_schedstat(text: &[u8]) -> Option<Ran> {
    let mut fields = words(text.trim_ascii()).map(number);
    Some(Ran {
        ran: Nanos(fields.next()??),
        waited: Nanos(fields.next()??),
        turns: fields.next()??,
    })
}

/// The numbers of the threads of a process, at most `max`.
///
/// # Errors
/// [`Error::Gone`]; [`Error::Io`].
pub fn threads(process: &Process, max: usize) -> Result<Vec<i32>> {
    let path = proc_path(process.pid(), "task");
    let entries = std::fs::read_dir(&path).map_err(|error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        Error::of_file("read", &path, errno)
    })?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    let found = numbers.take(max).collect();
    if process.alive() {
        Ok(found)
    } else {
        Err(Error::Gone { pid: process.pid() })
    }
}

/// The processor time that threads of a process used so far, together. Those that have ended do not count.
pub fn ran(process: &Process, threads: &[i32]) -> Ran {
    let each = threads.iter().filter_map(|tid| {
        let path = proc_path(process.pid(), &format!("task/{tid}/schedstat"));
        parse_schedstat(&std::fs::read(path).ok()?)
    });
    each.fold(Ran::default(), |sum, one| Ran {
        ran: sum.ran + one.ran,
        waited: sum.waited + one.waited,
        turns: sum.turns.saturating_add(one.turns),
    })
}

/// Processors that a process may use now (`sched_getaffinity(2)`); 1 at least.
pub fn processors(process: &Process) -> usize {
    // SAFETY: a set of zeros is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the stated size to `set`, which outlives the call.
    let done = unsafe {
        libc::sched_getaffinity(process.pid(), size_of::<libc::cpu_set_t>(), &raw mut set)
    };
    if done != 0 {
        return std::thread::available_parallelism().map_or(1, usize::from);
    }
    // SAFETY: it only counts the bits of `set`.
    let count = unsafe { libc::CPU_COUNT(&set) };
    usize::try_from(count).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_noise_is_none() {
        let ran = Ran {
            ran: Nanos(5),
            waited: Nanos(70),
            turns: 3,
        };
        assert_eq!(parse_schedstat(b"5 70 3\n"), Some(ran));
        for none in [&b""[..], b"5 70", b"5 x 3", b"-1 2 3"] {
            assert_eq!(parse_schedstat(none), None);
        }
        assert_eq!(size_of::<Attributes>(), 48);
    }
}
