//! Delay accounting per process and thread over netlink. Source: kernel documents
//! `accounting/taskstats.rst`, `delay-accounting.rst`; `linux/taskstats.h`. Needs CAP_NET_ADMIN,
//! and `kernel.task_delayacct=1` before the process was made.

use crate::descriptors::file_of;
use crate::{Error, Result};
use plimsoll_unit::Nanos;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Its name in errors.
pub(super) const CALL: &str = "taskstats";
pub(super) const NEEDS: &str = "CAP_NET_ADMIN";
/// Answers are below 1 KiB.
const BUFFER: usize = 8 << 10;
/// Header of a netlink message, and of the generic family after it.
const NETLINK_HEADER: usize = 16;
const HEADERS: usize = NETLINK_HEADER + 4;
/// Longest value of an attribute that is asked with, bytes: the name of the family.
const MAX_VALUE: usize = 12;
/// Longest question, bytes.
const QUESTION: usize = HEADERS + 4 + MAX_VALUE;
/// How many answers to other questions are passed over before giving up.
const MAX_STRAYS: usize = 16;

const CTRL_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_GET: u8 = 1;
const CMD_PID: u16 = 1;
const CMD_TGID: u16 = 2;
const TYPE_STATS: u16 = 3;
const TYPE_AGGR_PID: u16 = 4;
const TYPE_AGGR_TGID: u16 = 5;

/// Delays of a process (all its threads) or a thread, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStalls {
    /// Allocation stalls: how often it had to reclaim for its own allocation, at a group's limit too.
    pub reclaim_count: u64,
    /// How long that took.
    pub reclaim: Nanos,
    /// How often it waited for swap.
    pub swapin_count: u64,
    /// How long that took.
    pub swapin: Nanos,
    /// How often it waited for blocks.
    pub block_count: u64,
    /// How long that took.
    pub block: Nanos,
    /// How long it waited for pages to come back that had been in use when they were taken, from swap or of
    /// files; 0 before Linux 4.20, which did not count that.
    pub thrashing: Nanos,
    /// How often it waited for a copy of a page that it shared until it wrote to it; `None` before
    /// Linux 6.0, which did not count that.
    pub copy_count: Option<u64>,
}

/// Offsets of the counts in `struct taskstats`, bytes. Each count is followed by its total in ns.
struct Layout {
    block: usize,
    swapin: usize,
    reclaim: usize,
    thrashing: usize,
    copy: usize,
}

/// From this version on waits for pages that come back are counted.
const COUNTS_THRASHING: u16 = 9;
/// From this version on copies are counted.
const COUNTS_COPIES: u16 = 13;

/// From version 7 on (Linux 2.6.27).
const USUAL: Layout = Layout {
    block: 32,
    swapin: 48,
    reclaim: 312,
    thrashing: 328,
    copy: 400,
};
/// Version 15 (Linux 6.14 and 6.15) had two more fields after each of the first totals; version 16
/// moved them to the end.
const VERSION_15: Layout = Layout {
    block: 48,
    swapin: 80,
    reclaim: 360,
    thrashing: 392,
    copy: 496,
};

impl TaskStalls {
    /// Takes the fields out of a `struct taskstats` of any version.
    pub fn parse(stats: &[u8]) -> Option<TaskStalls> {
        let field = |at: usize| Some(u64::from_ne_bytes(stats.get(at..at + 8)?.try_into().ok()?));
        let time = |at: usize| field(at).map(Nanos);
        let version = u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?);
        let at = if version == 15 { VERSION_15 } else { USUAL };
        Some(TaskStalls {
            block_count: field(at.block)?,
            block: time(at.block + 8)?,
            swapin_count: field(at.swapin)?,
            swapin: time(at.swapin + 8)?,
            reclaim_count: field(at.reclaim)?,
            reclaim: time(at.reclaim + 8)?,
            thrashing: if version >= COUNTS_THRASHING {
                time(at.thrashing + 8)?
            } else {
                Nanos::ZERO
            },
            copy_count: if version >= COUNTS_COPIES {
                Some(field(at.copy)?)
            } else {
                None
            },
        })
    }

    /// How long it waited for memory that had been taken from it. The kernel counts the reading of a
    /// page from swap as one delay, as the other, or for a part of the time as both, by the kind of the page
    /// and of the disk; so this is the longer one.
    pub fn returning(&self) -> Nanos {
        self.swapin.max(self.thrashing)
    }

    /// Whether the kernel has counted any delay. Once a thread has run, it has copied pages of its
    /// stack or its program, so that from Linux 6.0 on `false` means that it is not counted at all.
    pub fn any(&self) -> bool {
        let counts = [self.reclaim_count, self.swapin_count, self.block_count];
        counts.iter().any(|&count| count > 0) || self.copy_count.is_some_and(|count| count > 0)
    }
}

/// A socket to the kernel's accounting.
#[derive(Debug)]
pub struct Taskstats {
    socket: OwnedFd,
    /// Device and inode of the socket.
    is: Option<(u64, u64)>,
    family: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Taskstats {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without CAP_NET_ADMIN (some containers); [`Error::Unsupported`]
    /// where the kernel was built without.
    pub fn open() -> Result<Taskstats> {
        // The kernel answers within the call that asks, so an answer that is not there then never comes.
        // Nobody waits for it: this is read within collections, too.
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a plain system call; the descriptor that it returns is ours alone.
        let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
        if raw < 0 {
            return Err(failed(0, &std::io::Error::last_os_error()));
        }
        // SAFETY: `raw` was just opened and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut taskstats = Taskstats {
            is: file_of(&socket),
            socket,
            family: 0,
            sequence: 0,
            buffer: vec![0; BUFFER],
        };
        taskstats.family = taskstats.find_family()?;
        Ok(taskstats)
    }

    /// Whether the descriptor is still our socket. A program in which this runs may have closed it, and its
    /// number may be a connection of the program's by now: then nothing may be asked here.
    pub fn is_ours(&self) -> bool {
        self.is.is_some() && file_of(&self.socket) == self.is
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }

    /// The sum over a process's threads, including exited ones; 5 us.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::NotPermitted`] without CAP_NET_ADMIN.
    pub fn process(&mut self, pid: i32) -> Result<TaskStalls> {
        self.get(CMD_TGID, TYPE_AGGR_TGID, pid)
    }

    /// One thread; 4 us.
    ///
    /// # Errors
    /// As [`Taskstats::process`].
    pub fn thread(&mut self, tid: i32) -> Result<TaskStalls> {
        self.get(CMD_PID, TYPE_AGGR_PID, tid)
    }

    fn get(&mut self, command: u16, aggregate: u16, pid: i32) -> Result<TaskStalls> {
        let answer = self.query(self.family, TASKSTATS_GET, command, &pid.to_ne_bytes(), pid)?;
        let stats = attribute(answer, aggregate).and_then(|inner| attribute(inner, TYPE_STATS));
        stats
            .and_then(TaskStalls::parse)
            .ok_or_else(|| failed(pid, &short_answer()))
    }

    fn find_family(&mut self) -> Result<u16> {
        let unsupported = Error::Unsupported {
            what: CALL,
            since: "2.6.18, built with CONFIG_TASKSTATS",
        };
        match self.query(
            libc::GENL_ID_CTRL as u16,
            CTRL_GETFAMILY,
            CTRL_ATTR_FAMILY_NAME,
            b"TASKSTATS\0",
            0,
        ) {
            Ok(answer) => {
                let id = attribute(answer, CTRL_ATTR_FAMILY_ID).and_then(|id| id.try_into().ok());
                id.map(u16::from_ne_bytes).ok_or(unsupported)
            }
            Err(Error::Absent { .. } | Error::Gone { .. }) => Err(unsupported),
            Err(e) => Err(e),
        }
    }

    /// Sends one question with one attribute, and returns the attributes of the answer.
    fn query(
        &mut self,
        family: u16,
        command: u8,
        kind: u16,
        value: &[u8],
        pid: i32,
    ) -> Result<&[u8]> {
        self.sequence = self.sequence.wrapping_add(1);
        let (question, length) = question(family, self.sequence, command, kind, value);
        // SAFETY: `question` is initialised memory of at least the stated length that outlives the call.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), question.as_ptr().cast(), length, 0) };
        if sent < 0 {
            return Err(failed(pid, &std::io::Error::last_os_error()));
        }
        for _ in 0..MAX_STRAYS {
            // SAFETY: the buffer is writable memory of the stated length that outlives the call.
            let got = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            };
            if got < 0 {
                return Err(failed(pid, &std::io::Error::last_os_error()));
            }
            match parse_answer(&self.buffer[..got as usize], self.sequence) {
                Answer::Stray => continue,
                Answer::Refused(errno) => {
                    return Err(failed(pid, &std::io::Error::from_raw_os_error(errno)));
                }
                Answer::Attributes(from, to) => return Ok(&self.buffer[from..to]),
            }
        }
        Err(failed(pid, &short_answer()))
    }
}

/// A generic netlink message with one attribute of at most [`MAX_VALUE`] bytes, and its length. It is on the
/// stack, because a reading within a collection must not allocate.
fn question(
    family: u16,
    sequence: u32,
    command: u8,
    kind: u16,
    value: &[u8],
) -> ([u8; QUESTION], usize) {
    let attribute = 4 + value.len();
    let total = HEADERS + attribute.next_multiple_of(4);
    let mut message = [0; QUESTION];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        message[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&(total as u32).to_ne_bytes());
    put(&family.to_ne_bytes());
    put(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    put(&sequence.to_ne_bytes());
    put(&0u32.to_ne_bytes());
    put(&[command, 1, 0, 0]);
    put(&(attribute as u16).to_ne_bytes());
    put(&kind.to_ne_bytes());
    put(value);
    (message, total)
}

/// The content of a message.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Where its attributes are.
    Attributes(usize, usize),
    /// An errno.
    Refused(i32),
    /// An answer to something else.
    Stray,
}

fn parse_answer(message: &[u8], sequence: u32) -> Answer {
    let word = |at: usize| {
        message
            .get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map(u32::from_ne_bytes)
    };
    let kind = message
        .get(4..6)
        .and_then(|b| b.try_into().ok())
        .map(u16::from_ne_bytes);
    let (Some(length), Some(kind), Some(seen)) = (word(0), kind, word(8)) else {
        return Answer::Stray;
    };
    if seen != sequence {
        return Answer::Stray;
    }
    if kind == libc::NLMSG_ERROR as u16 {
        let errno = word(NETLINK_HEADER).map_or(libc::EIO, |e| (e as i32).wrapping_neg());
        return Answer::Refused(if errno > 0 { errno } else { libc::EIO });
    }
    let end = (length as usize).min(message.len());
    if end < HEADERS {
        Answer::Stray
    } else {
        Answer::Attributes(HEADERS, end)
    }
}

/// The value of the first attribute of a kind.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(head) = rest.get(..4) {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper two bits are flags.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn short_answer() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::InvalidData,
        "the kernel's answer is shorter than documented",
    )
}

fn failed(pid: i32, source: &std::io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
            call: CALL,
            pid,
            needs: NEEDS,
        },
        Some(libc::ESRCH) => Error::Gone { pid },
        Some(libc::ENOENT) => Error::Absent { path: CALL.into() },
        Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => Error::Unsupported {
            what: CALL,
            since: "2.6.18",
        },
        Some(errno) => Error::Call {
            call: CALL,
            pid,
            source: std::io::Error::from_raw_os_error(errno),
        },
        None => Error::Call {
            call: CALL,
            pid,
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_and_attributes_fit_each_other() {
        let (message, length) = question(30, 7, TASKSTATS_GET, CMD_TGID, &42i32.to_ne_bytes());
        let message = &message[..length];
        assert_eq!(message.len() % 4, 0);
        assert_eq!(
            parse_answer(message, 7),
            Answer::Attributes(HEADERS, message.len())
        );
        assert_eq!(parse_answer(message, 8), Answer::Stray);
        assert_eq!(
            attribute(&message[HEADERS..], CMD_TGID),
            Some(&42i32.to_ne_bytes()[..])
        );
        assert_eq!(attribute(&message[HEADERS..], CMD_PID), None);
    }

    /// A `struct taskstats` of this version: word `n` of it is `n`.
    fn stats(version: u16) -> Vec<u8> {
        let mut stats: Vec<u8> = (0..70u64).flat_map(u64::to_ne_bytes).collect();
        stats[..2].copy_from_slice(&version.to_ne_bytes());
        stats
    }

    #[test]
    fn waits_for_what_comes_back_are_found_in_each_version() {
        let of = |version| TaskStalls::parse(&stats(version)).unwrap();
        assert_eq!(of(8).thrashing, Nanos(0), "the fields are others there");
        assert_eq!(of(8).returning(), of(8).swapin);
        for version in [9, 14, 16] {
            let stalls = of(version);
            assert_eq!((stalls.swapin, stalls.thrashing), (Nanos(7), Nanos(42)));
            assert_eq!(stalls.returning(), Nanos(42));
        }
        assert_eq!((of(15).swapin, of(15).thrashing), (Nanos(11), Nanos(50)));
    }

    proptest! {
        #[test]
        fn nothing_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            kind in any::<u16>(),
            sequence in any::<u32>(),
        ) {
            let _ = (attribute(&bytes, kind), parse_answer(&bytes, sequence), TaskStalls::parse(&bytes));
        }
    }
}
