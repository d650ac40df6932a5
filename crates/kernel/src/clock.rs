//! The one clock: monotonic, nanoseconds. A container may have a time namespace, in which it shows
//! another time (`time_namespaces(7)`).

use crate::process::text_through;
use plimsoll_unit::{MICROSECOND, Nanos, SECOND};
use rustix::time::{ClockId, clock_gettime};

/// Longest `timens_offsets` that is read, bytes.
const MAX_OFFSETS: usize = 4 << 10;

/// A point of `CLOCK_MONOTONIC`. Does not jump when the time of day is set, and stands still
/// during suspend.
pub fn now() -> Nanos {
    nanoseconds(ClockId::Monotonic)
}

/// By how much [`now`] of a process is ahead of ours, nanoseconds. 0 where the kernel does not say:
/// then it has no time namespaces, or the process is gone.
pub fn ahead_ns(pid: u32) -> i64 {
    let offset = |pid: &dyn std::fmt::Display| {
        let text = text_through(pid, "timens_offsets", MAX_OFFSETS, Vec::is_empty);
        parse_offset(&text.ok()?)
    };
    let both = offset(&pid).zip(offset(&"self"));
    both.map_or(0, |(theirs, ours)| theirs.saturating_sub(ours))
}

/// The offset of the monotonic clock, nanoseconds: lines of a clock, seconds and nanoseconds.
fn parse_offset(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut words =
        lines.find_map(|mut words| (words.next() == Some("monotonic")).then_some(words))?;
    let seconds: i64 = words.next()?.parse().ok()?;
    let rest: i64 = words.next()?.parse().ok()?;
    Some(seconds.saturating_mul(SECOND as i64).saturating_add(rest))
}

/// Processor time that this thread has used.
pub fn thread_cpu() -> Nanos {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Processor time that all threads of this process have used.
pub fn process_cpu() -> Nanos {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Processor time that the children of this process have used that it has waited for, and
/// theirs.
pub fn children_cpu() -> Nanos {
    // SAFETY: zero is a value of a structure of numbers, and it is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let times = [usage.ru_utime, usage.ru_stime].into_iter();
    times
        .map(|time| span(time.tv_sec, time.tv_usec.saturating_mul(MICROSECOND as i64)))
        .sum()
}

fn nanoseconds(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    span(time.tv_sec, time.tv_nsec)
}

/// The kernel's two parts of a time in one: seconds, and nanoseconds of one.
fn span(seconds: i64, rest: i64) -> Nanos {
    Nanos::seconds(seconds.max(0) as u64) + Nanos(rest.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::{ahead_ns, parse_offset};

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = b"monotonic      -86400  500000000\nboottime           7         0\n";
        assert_eq!(parse_offset(text), Some(-86_399_500_000_000));
        let huge = b"monotonic 9223372036854775807 0\n";
        assert_eq!(parse_offset(huge), Some(i64::MAX));
        for bad in [
            &b""[..],
            b"boottime 1 2\n",
            b"monotonic 1\n",
            b"monotonic x 0\n",
            b"\xff",
        ] {
            assert_eq!(parse_offset(bad), None, "{bad:?}");
        }
        assert_eq!(ahead_ns(std::process::id()), 0);
        assert_eq!(ahead_ns(u32::MAX), 0, "there is none");
    }

    #[test]
    fn never_runs_backwards() {
        let mut last = super::now();
        for _ in 0..1000 {
            let now = super::now();
            assert!(now >= last);
            last = now;
        }
    }
}
