//! Processes that are passed over, and why.

use plimsoll_kernel::timeout::Missed;
use plimsoll_unit::Nanos;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a process is passed over.
#[derive(Debug)]
pub(super) enum Why {
    /// Told.
    Named(String),
    /// Counted only: one of many of other users.
    Others,
    /// Not worth a word: a kernel thread, among all processes.
    Nothing,
    /// Told; it did not let itself be read in time, or was not asked, so what was known of it still holds:
    /// its files are those of its memory cgroup.
    Stuck {
        reason: String,
        group: Option<PathBuf>,
    },
}

/// A process that is passed over for a while.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) why: Why,
    /// Until when at least, on the clock of looks.
    pub(super) until: Nanos,
    /// Set once the look that took too long has ended. No other begins before: each such look costs a
    /// thread, and threads are few.
    pub(super) over: Arc<AtomicBool>,
}

impl Refused {
    /// Whether it is still passed over.
    pub(super) fn holds(&self, now: Nanos) -> bool {
        self.until > now || !self.over.load(Ordering::Relaxed)
    }

    /// The memory cgroup of a process that is stuck.
    pub(super) fn group(&self) -> Option<&Path> {
        match &self.why {
            Why::Stuck { group, .. } => group.as_deref(),
            Why::Named(_) | Why::Others | Why::Nothing => None,
        }
    }
}

/// Tells at its end that a look is over, however it ended.
pub(super) struct Over(pub(super) Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why nothing was read of a process.
pub(super) fn reason_of(pid: i32, missed: Missed) -> String {
    match missed {
        Missed::Late => format!(
            "process {pid} does not let itself be read within two seconds; it may wait for a disk or a \
             server"
        ),
        why => format!("process {pid} was not looked at: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_not_asked_is_not_called_slow() {
        assert!(reason_of(7, Missed::Late).contains("within two seconds"));
        let crowded = reason_of(7, Missed::Crowded);
        assert!(
            crowded.starts_with("process 7 was not looked at: 32 earlier reads"),
            "{crowded}"
        );
    }

    #[test]
    fn a_look_that_took_too_long_is_not_begun_again_before_it_ended() {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Over(Arc::clone(&over));
        let refused = Refused {
            why: Why::Others,
            until: Nanos(10),
            over,
        };
        assert!(refused.holds(Nanos(9)) && refused.holds(Nanos(u64::MAX)));
        drop(ends);
        assert!(refused.holds(Nanos(9)) && !refused.holds(Nanos(10)));
    }
}
