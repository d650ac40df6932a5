//! The events in a process between two looks: faults, and evicted pages that came back.

use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use serde::{Deserialize, Serialize};

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// When they were read: nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Faults of the process that were resolved without reading from a disk, count.
    pub minor_faults: u64,
    /// Faults of the process that had to wait for a disk, count.
    pub major_faults: u64,
    /// Pages of files that its memory cgroup read again after eviction, bytes. `None` where there is
    /// no such group, or the kernel does not count it.
    pub refaulted_file: Option<u64>,
    /// Anonymous pages of its memory cgroup that came back from swap, bytes.
    pub refaulted_anon: Option<u64>,
}

/// The events between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Between the looks, seconds.
    pub seconds: f64,
    /// Faults of the process that were resolved without reading from a disk, count.
    pub minor_faults: u64,
    /// Faults of the process that had to wait for a disk, count.
    pub major_faults: u64,
    /// Pages of files that its whole memory cgroup read again after eviction, bytes.
    pub refaulted_file: Option<u64>,
    /// Anonymous pages of its whole memory cgroup that came back from swap, bytes.
    pub refaulted_anon: Option<u64>,
}

impl Counters {
    /// Reads them; what is not shown stays 0 or `None`.
    pub fn of(process: &Process) -> Counters {
        let faults = process.faults().unwrap_or_default();
        let group = process.cgroup().ok().flatten().filter(|group| group.exact);
        let stat = group.and_then(|place| Cgroup::open(place).ok()?.stat().ok());
        let page = plimsoll_kernel::process::page_size();
        Counters {
            at_ns: clock::now().0,
            minor_faults: faults.minor,
            major_faults: faults.major,
            refaulted_file: stat.map(|s| s.refault_file.saturating_mul(page)),
            refaulted_anon: stat.map(|s| s.refault_anon.saturating_mul(page)),
        }
    }

    /// The events since earlier counters of the same process.
    pub fn since(&self, before: &Counters) -> Change {
        let known = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Change {
            seconds: self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9,
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            refaulted_file: known(self.refaulted_file, before.refaulted_file),
            refaulted_anon: known(self.refaulted_anon, before.refaulted_anon),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_and_never_negative() {
        let before = Counters {
            at_ns: 1_000_000_000,
            minor_faults: 5,
            major_faults: 7,
            refaulted_file: Some(4096),
            refaulted_anon: None,
        };
        let after = Counters {
            at_ns: 3_500_000_000,
            minor_faults: 8,
            major_faults: 6,
            refaulted_file: Some(12_288),
            refaulted_anon: Some(1),
        };
        let change = after.since(&before);
        assert_eq!(change.seconds, 2.5);
        assert_eq!((change.minor_faults, change.major_faults), (3, 0));
        assert_eq!(change.refaulted_file, Some(8192));
        assert_eq!(change.refaulted_anon, None);
        assert!(Counters::of(&Process::own().unwrap()).minor_faults > 0);
    }
}
