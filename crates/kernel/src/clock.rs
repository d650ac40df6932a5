//! The one clock: monotonic, nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`. Does not jump when the time of day is set, and stands still
/// during suspend.
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds of processor time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Nanoseconds of processor time that all threads of this process have used.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Nanoseconds of processor time that the children of this process have used that it has waited for, and
/// theirs.
pub fn children_cpu_ns() -> u64 {
    // SAFETY: zero is a value of a structure of numbers, and it is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| {
            (time.tv_sec.max(0) as u64) * 1_000_000_000 + (time.tv_usec.max(0) as u64) * 1000
        })
        .iter()
        .sum()
}

fn nanoseconds(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec.max(0) as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_runs_backwards() {
        let mut last = super::now_ns();
        for _ in 0..1000 {
            let now = super::now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
