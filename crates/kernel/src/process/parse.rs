//! Pure parsers of `/proc/PID/stat`, `statm` and `status`.

use crate::parse::{hexadecimal, lines, number, pair, words};
use plimsoll_unit::Bytes;

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident anonymous memory.
    pub anon: Bytes,
    /// Resident pages of files.
    pub file: Bytes,
    /// Resident shared memory (tmpfs, shared anonymous).
    pub shmem: Bytes,
    /// In swap (anonymous memory only).
    pub swap: Bytes,
    /// Locked.
    pub locked: Bytes,
}

impl Memory {
    /// All that is resident.
    pub fn resident(&self) -> Bytes {
        self.anon + self.file + self.shmem
    }
}

/// `/proc/PID/statm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statm {
    /// Mapped, resident or not.
    pub size: Bytes,
    /// Resident.
    pub resident: Bytes,
    /// The resident pages of files and shared memory.
    pub shared: Bytes,
}

impl Statm {
    /// Resident anonymous memory.
    pub fn anon(&self) -> Bytes {
        self.resident - self.shared
    }
}

/// Faults since the process started, without its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Resolved without I/O.
    pub minor: u64,
    /// Had to read.
    pub major: u64,
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `Z`, ...
    pub state: u8,
    /// Number of the parent.
    pub parent: i32,
    /// Whether it is a thread of the kernel, which has no memory of its own.
    pub of_kernel: bool,
    /// Whether its first thread is exiting or has exited. Other threads may go on.
    pub is_exiting: bool,
    /// Faults.
    pub faults: Faults,
    /// Processor time, clock ticks, user and system.
    pub cpu_ticks: u64,
    /// The part of it in user mode.
    pub user_ticks: u64,
    /// Threads, with the first one, which stays until the others have ended.
    pub threads: u64,
    /// Clock ticks after boot at which it started.
    pub start_time: u64,
    /// Address at which its stack begins; 0 where that is hidden from us.
    pub stack: u64,
}

impl Stat {
    /// Whether the whole process has ended. While other threads go on, a first one that has ended looks like
    /// a zombie.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads < 2
    }
}

/// The name between the outermost parentheses: it may hold blanks, parentheses and newlines itself.
pub(super) fn comm(text: &[u8]) -> Option<&[u8]> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    text.get(open + 1..close)
}

/// The flag of threads of the kernel (`linux/sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;
/// The flag of threads that are exiting (`linux/sched.h`).
const PF_EXITING: u64 = 0x0000_0004;

/// Parses `/proc/PID/stat`.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|&b| b == b')')?;
    // Field 3 (state) is the first after the name.
    let mut fields = words(text.get(close + 1..)?);
    let state = *fields.next()?.first()?;
    let mut numbers = [0u64; 19];
    let mut parent = 0;
    for (index, slot) in numbers.iter_mut().enumerate() {
        let word = fields.next()?.trim_ascii();
        // Priorities and the like may be negative; they are not used here.
        *slot = number(word).unwrap_or(0);
        if index == 0 {
            parent = i32::try_from(*slot).unwrap_or(0);
        }
    }
    // Five fields lie between the start time and the stack.
    let stack = fields.nth(5).and_then(number).unwrap_or(0);
    let field = |n: usize| numbers[n - 4];
    Some(Stat {
        state,
        parent,
        of_kernel: field(9) & PF_KTHREAD != 0,
        is_exiting: field(9) & PF_EXITING != 0 || matches!(state, b'Z' | b'X'),
        faults: Faults {
            minor: field(10),
            major: field(12),
        },
        cpu_ticks: field(14).saturating_add(field(15)),
        user_ticks: field(14),
        threads: field(20),
        start_time: field(22),
        stack,
    })
}

/// Parses `/proc/PID/statm`, of pages of this size.
pub fn parse_statm(text: &[u8], page: Bytes) -> Option<Statm> {
    let mut fields = words(text.trim_ascii()).map(|w| number(w).map(|n| page * n));
    Some(Statm {
        size: fields.next()??,
        resident: fields.next()??,
        shared: fields.next()??,
    })
}

/// Parses the memory of `/proc/PID/status`; a kernel thread has none.
pub fn parse_status(text: &[u8]) -> Memory {
    let mut memory = Memory::default();
    let may_tell = |line: &&[u8]| matches!(line.first(), Some(b'R' | b'V'));
    for line in lines(text).filter(may_tell) {
        match pair(line) {
            Some((b"RssAnon", n)) => memory.anon = Bytes(n),
            Some((b"RssFile", n)) => memory.file = Bytes(n),
            Some((b"RssShmem", n)) => memory.shmem = Bytes(n),
            Some((b"VmSwap", n)) => memory.swap = Bytes(n),
            Some((b"VmLck", n)) => memory.locked = Bytes(n),
            _ => {}
        }
    }
    memory
}

/// The identities of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusIds {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Parent's number, 0 when it is outside our namespace.
    pub parent: i32,
    /// Its number in its own (innermost) pid namespace; its number in ours if the kernel does not
    /// tell.
    pub inner_pid: i32,
    /// The depth of its pid namespace, counted from ours, which is 1.
    pub pid_levels: u32,
}

/// Parses the identities of `/proc/PID/status`.
pub fn parse_status_ids(text: &[u8]) -> Option<StatusIds> {
    let mut ids = StatusIds::default();
    let mut uid = None;
    for line in lines(text) {
        let mut fields = words(line);
        let name = fields.next();
        let second = |mut fields: Box<dyn Iterator<Item = &[u8]> + '_>| {
            u32::try_from(number(fields.nth(1)?)?).ok()
        };
        match name {
            Some(b"Uid:") => uid = second(Box::new(fields)),
            Some(b"Gid:") => ids.gid = second(Box::new(fields)).unwrap_or(0),
            Some(b"PPid:") => {
                ids.parent = fields
                    .next()
                    .and_then(number)
                    .and_then(|n| i32::try_from(n).ok())
                    .unwrap_or(0);
            }
            Some(b"Pid:") if ids.inner_pid == 0 => {
                ids.inner_pid = fields
                    .next()
                    .and_then(number)
                    .and_then(|n| i32::try_from(n).ok())
                    .unwrap_or(0);
                ids.pid_levels = 1;
            }
            Some(b"NSpid:") => {
                for word in fields.enumerate() {
                    ids.pid_levels = word.0 as u32 + 1;
                    ids.inner_pid = number(word.1)
                        .and_then(|n| i32::try_from(n).ok())
                        .unwrap_or(ids.inner_pid);
                }
            }
            _ => {}
        }
    }
    ids.uid = uid?;
    Some(ids)
}

/// The identities of a process, and its state for signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// As [`StatusIds::inner_pid`].
    pub inner_pid: u32,
    /// As [`StatusIds::pid_levels`].
    pub levels: u32,
    /// Effective user.
    pub euid: u32,
    /// Effective group.
    pub egid: u32,
    /// Its state: `R` runs, `S` and `D` wait, `T` and `t` were stopped; 0 if unknown.
    pub state: u8,
    /// Caught signals, bit `n - 1` for signal `n`.
    pub caught: u64,
    /// Pending signals, in the same form: those of its first thread and of the whole process.
    pub pending: u64,
}

/// Parses identities and signals of `/proc/PID/status`; `None` if the user is missing.
pub fn parse_status_signals(text: &[u8]) -> Option<Status> {
    let ids = parse_status_ids(text)?;
    let mut status = Status {
        inner_pid: ids.inner_pid.unsigned_abs(),
        levels: ids.pid_levels,
        euid: ids.uid,
        egid: ids.gid,
        ..Status::default()
    };
    for line in lines(text) {
        let mut fields = words(line);
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else {
            continue;
        };
        let signals = hexadecimal(value).unwrap_or(0);
        match name {
            b"State:" => status.state = value[0],
            b"SigCgt:" => status.caught = signals,
            b"SigPnd:" | b"ShdPnd:" => status.pending |= signals,
            _ => {}
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_far_as_it_goes() {
        let text = "Name:\tjava\nState:\tT (stopped)\nPid:\t900\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
                    NSpid:\t900\t7\nRssAnon:\t   12 kB\nSigPnd:\t0000000000000001\n\
                    ShdPnd:\t0000000000000004\nSigCgt:\t0000000181005ccf\n";
        let status = parse_status_signals(text.as_bytes()).unwrap();
        assert_eq!((status.euid, status.egid), (2, 6));
        assert_eq!((status.inner_pid, status.levels), (7, 2));
        assert_eq!((status.state, status.pending), (b'T', 5));
        assert_eq!(status.caught, 0x1_8100_5ccf);
        assert_eq!(parse_status(text.as_bytes()).anon, Bytes(12 << 10));
        for cut in 0..text.len() {
            let _ = parse_status_signals(&text.as_bytes()[..cut]);
        }
        for bad in ["State:", "State:\t\n", "NSpid:\n", "SigCgt:\tx"] {
            let text = format!("Uid:\t1\t2\n{bad}");
            let status = parse_status_signals(text.as_bytes()).unwrap();
            assert_eq!((status.state, status.caught), (0, 0), "{bad}");
        }
        assert_eq!(parse_status_signals(b"Uid:\t1\n"), None);
    }
}
