//! Tier 3: counts the beginnings of reclaim of one process. Source: `perf_event_open(2)`.
//!
//! A perf event belongs to one thread; with `inherit` it also counts for the threads that this one
//! makes, and they make. So each thread that exists gets its events, and none that comes later.

use super::super::{Declined, Stalled};
use super::{BEGINS, tracefs};
use crate::process::{Process, proc_path};
use crate::{Error, Result, descriptors};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const CALL: &str = "perf_event_open";
/// Threads of another process that are counted at most: each takes a descriptor for each tracepoint.
const MAX_THREADS: usize = 512;
/// Descriptors that are taken at most for our own threads: we may be in somebody else's program.
const MAX_OWN: usize = 256;
/// That is at most one in this many of those that the process may have.
const OWN_PART: usize = 16;
/// How often it is tried to see the same threads before and after.
const MAX_TRIES: usize = 8;

const TYPE_TRACEPOINT: u32 = 2;
/// Bits of [`Attributes::flags`]: events of the threads that the thread makes; threads only, not
/// child processes.
const INHERIT: u64 = 1 << 1;
const INHERIT_THREAD: u64 = 1 << 35;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_EVENT_IOC_ID`: the number of an event.
const IOC_ID: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;

/// `struct perf_event_attr` in its first version, without what stays 0.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    unused: [u64; 3],
    flags: u64,
    rest: [u64; 2],
}

/// An event, and the number that the kernel gave it and no other.
#[derive(Debug)]
struct Event {
    file: OwnedFd,
    id: u64,
}

/// The events of all threads.
#[derive(Debug)]
pub(in super::super) struct Counted(Vec<Event>);

impl Counted {
    /// Opens them.
    pub(in super::super) fn open(process: &Process) -> std::result::Result<Counted, Declined> {
        let numbers = tracefs::numbers(BEGINS)?;
        let pid = process.pid();
        let most = if rustix::process::getpid().as_raw_pid() == pid {
            most_own_threads(descriptors::limit())
        } else {
            MAX_THREADS
        };
        for _ in 0..MAX_TRIES {
            let threads = threads(pid, most)?;
            let mut events = Vec::with_capacity(threads.len() * numbers.len());
            for &tid in &threads {
                for number in numbers {
                    match event(number, tid) {
                        Ok(event) => events.push(event),
                        Err(e) if e.is_gone() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
            if !process.alive() {
                return Err(Error::Gone { pid }.into());
            }
            // A thread that came meanwhile counts already if its maker had its events by then, else
            // it does not. Nobody can say which, so try again.
            let now = self::threads(pid, most)?;
            if now.iter().all(|tid| threads.contains(tid)) {
                return Ok(Counted(events));
            }
        }
        Err(Declined::Unsteady { pid })
    }

    /// Whether the descriptors are still ours.
    pub(in super::super) fn is_ours(&self) -> bool {
        let mut events = self.0.iter();
        events.all(|event| id(&event.file).is_ok_and(|id| id == event.id))
    }

    #[cfg(test)]
    pub(in super::super) fn numbers(&self) -> Vec<std::os::fd::RawFd> {
        self.0.iter().map(|event| event.file.as_raw_fd()).collect()
    }

    /// The beginnings since opening.
    pub(in super::super) fn read(&self) -> Result<Stalled> {
        let mut stalled = Stalled::default();
        for event in &self.0 {
            let mut count = [0; 8];
            match rustix::io::read(&event.file, &mut count) {
                Ok(8) => {
                    let count = u64::from_ne_bytes(count);
                    stalled.count = stalled.count.saturating_add(count);
                }
                Ok(_) => return Err(failed(0, std::io::ErrorKind::InvalidData.into())),
                Err(errno) => return Err(failed(0, errno.into())),
            }
        }
        Ok(stalled)
    }
}

/// How many threads of our own process are counted at most, if it may have so many files open.
fn most_own_threads(limit: usize) -> usize {
    MAX_OWN.min(limit / OWN_PART) / BEGINS.len()
}

/// The numbers of a process's threads, in order. Declined if there are more than `most`.
fn threads(pid: i32, most: usize) -> std::result::Result<Vec<i32>, Declined> {
    let path = proc_path(pid, "task");
    let listed = |e: std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO);
        Error::of_file("read", &path, errno)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(listed)? {
        let name = entry.map_err(listed)?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
        if found.len() > most {
            return Err(Declined::ManyThreads { pid, most });
        }
    }
    Ok(found)
}

/// An event that counts the passes of a thread through a tracepoint.
fn event(number: u64, tid: i32) -> Result<Event> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: number,
        unused: [0; 3],
        flags: INHERIT | INHERIT_THREAD,
        rest: [0; 2],
    };
    let (any_processor, no_group) = (-1, -1);
    // SAFETY: the attributes are initialised memory of the size that they state, and outlive the
    // call, which only reads them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            tid,
            any_processor,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(failed(tid, std::io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new and ours alone.
    let file = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    Ok(Event {
        id: id(&file)?,
        file,
    })
}

/// The number of the event that a descriptor refers to. Any other file refuses to give one.
fn id(event: &OwnedFd) -> Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes one word to `id`, which outlives the call.
    let code = unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID, &raw mut id) };
    match code {
        0 => Ok(id),
        _ => Err(failed(0, std::io::Error::last_os_error())),
    }
}

fn failed(pid: i32, source: std::io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
            call: CALL,
            pid,
            needs: "CAP_PERFMON (and CAP_SYS_PTRACE for another user's process)",
        },
        Some(libc::ESRCH) => Error::Gone { pid },
        Some(libc::ENOSYS) => Error::Unsupported {
            what: CALL,
            since: "2.6.31, built with CONFIG_PERF_EVENTS",
        },
        Some(libc::EINVAL) => Error::Unsupported {
            what: "perf events that count for new threads only",
            since: "5.13",
        },
        _ => Error::Call {
            call: CALL,
            pid,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_our_own_process_a_small_part_of_its_descriptors_is_taken() {
        let limits = [0, 31, 256, 1024, usize::MAX];
        assert_eq!(limits.map(most_own_threads), [0, 0, 8, 32, 128]);
        let none = threads(std::process::id() as i32, 0);
        assert!(matches!(none, Err(Declined::ManyThreads { most: 0, .. })));
    }
}
