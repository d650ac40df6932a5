//! Disk traffic of the servers: of files and of swap apart.
//!
//! - *All bytes read*: `read_bytes` of `/proc/PID/io` of servers and holder. It counts what a process
//!   had read from the disk, by faults and readahead too, from swap too.
//! - *Swapped in*: `pswpin` of `/proc/vmstat`, at most `workingset_refault_anon` of the group. Version
//!   1 counts no reads from swap by group. The machine's number includes other groups; the group's
//!   includes pages of zeros, which are not on the disk. The smaller is closer.
//! - *Files*: all bytes read less those swapped in. Where only evicted pages are read, it equals
//!   `workingset_refault_file`.
//! - *Swapped out*: `pswpout` of `/proc/vmstat`, of the machine: measure with nothing else swapping.
//!
//! `pgpgin` of a group is none of these: it counts pages that were charged, read or not.

use super::holder::Groups;
use crate::Result;
use crate::harness::ground::Ground;
use crate::report::results::root;
use plimsoll_kernel::process::page_size;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters at one moment. Bytes and counts since some moment before.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// By process.
    read: BTreeMap<u32, u64>,
    swapped_in: u64,
    swapped_out: u64,
    major_faults: u64,
    refault_file: u64,
    refault_anon: u64,
    /// Clock ticks of all processors.
    ticks: u64,
    /// Those in which a processor was idle while something waited for the disk.
    waiting: u64,
}

/// The traffic between two moments.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Traffic {
    /// Bytes of files read.
    pub(super) files: f64,
    /// Bytes swapped in and out.
    pub(super) swap: f64,
    pub(super) major_faults: f64,
    /// Pages.
    pub(super) refault_file: f64,
    pub(super) refault_anon: f64,
    /// Part of the machine's processor time that was idle and waited for the disk, percent.
    pub(super) waiting: f64,
}

impl Counters {
    /// Those of now.
    ///
    /// # Errors
    /// When the group's counters cannot be read.
    pub(super) fn now(ground: &Ground, groups: &Groups, pids: &[u32]) -> Result<Counters> {
        let stat = ground.cgroup().stat()?;
        let mut counters = Counters {
            major_faults: groups.servers.stat()?.major_faults,
            refault_file: stat.refault_file,
            refault_anon: stat.refault_anon,
            ..Counters::default()
        };
        for pid in pids {
            // A process that has ended reads nothing more.
            if let Some(bytes) = value(&format!("/proc/{pid}/io"), "read_bytes:") {
                counters.read.insert(*pid, bytes);
            }
        }
        let vmstat = |key| value("/proc/vmstat", key).unwrap_or(0) * page_size();
        counters.swapped_in = vmstat("pswpin");
        counters.swapped_out = vmstat("pswpout");
        (counters.ticks, counters.waiting) = processor();
        Ok(counters)
    }

    /// The traffic since then.
    pub(super) fn since(&self, then: &Counters) -> Traffic {
        let difference = |of: fn(&Counters) -> u64| of(self).saturating_sub(of(then));
        let read: u64 = self
            .read
            .iter()
            .map(|(pid, bytes)| bytes.saturating_sub(then.read.get(pid).copied().unwrap_or(0)))
            .sum();
        let refault_anon = difference(|c| c.refault_anon);
        let swapped_in = difference(|c| c.swapped_in).min(refault_anon * page_size());
        let ticks = difference(|c| c.ticks).max(1);
        Traffic {
            files: read.saturating_sub(swapped_in) as f64,
            swap: (swapped_in + difference(|c| c.swapped_out)) as f64,
            major_faults: difference(|c| c.major_faults) as f64,
            refault_file: difference(|c| c.refault_file) as f64,
            refault_anon: refault_anon as f64,
            waiting: 100.0 * difference(|c| c.waiting) as f64 / ticks as f64,
        }
    }
}

/// The number behind a word at the begin of a line.
fn value(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

/// All ticks, and those of waiting for the disk (`/proc/stat`, the fifth number).
fn processor() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|n| n.parse().ok())
        .collect();
    (ticks.iter().sum(), ticks.get(4).copied().unwrap_or(0))
}

/// Bytes that the kernel reads ahead on the disk of the checkout; `None` if it does not say.
pub(super) fn readahead() -> Option<u64> {
    let device = rustix::fs::stat(root().as_path()).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let kib: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(read: u64, swapped_in: u64, refault_anon: u64) -> Counters {
        Counters {
            read: BTreeMap::from([(1, read)]),
            swapped_in,
            refault_anon,
            ..Counters::default()
        }
    }

    #[test]
    fn what_is_not_swap_is_files() {
        let page = page_size();
        let traffic = counters(100 * page, 40 * page, 50).since(&counters(10 * page, 0, 0));
        assert_eq!(
            (traffic.files, traffic.swap),
            ((50 * page) as f64, (40 * page) as f64)
        );
        // Pages that other groups swapped in are not taken off.
        let traffic = counters(100 * page, 900 * page, 50).since(&counters(0, 0, 0));
        assert_eq!(traffic.files, (50 * page) as f64);
    }

    #[test]
    fn own_counters_can_be_read() {
        let own = std::process::id();
        assert!(value(&format!("/proc/{own}/io"), "read_bytes:").is_some());
        assert!(value("/proc/vmstat", "pswpin").is_some());
        assert!(processor().0 > 0);
    }
}
