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
