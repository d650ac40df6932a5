//! Looks at the programs and their cgroup from outside, without touching their memory.

use super::collections::Collections;
use super::trace::Seen;
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::process::Walk;
use plimsoll_kernel::stalls::Taskstats;
use plimsoll_runtimes::hotspot::footprint::heap_file;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Most descendants of a program that are followed.
const MOST: usize = 64;

/// One program and what descends from it.
#[derive(Debug)]
pub struct Watched {
    walk: Walk,
    /// Whether the process that we started is `plimsoll run`, which is no part of the program.
    launcher: bool,
    stalls: Option<Taskstats>,
    collections: Collections,
    heaps: Heaps,
    rescans: u32,
    last: Seen,
}

impl Watched {
    /// Follows the process that was just started.
    ///
    /// # Errors
    /// When the process is gone already.
    pub fn new(pid: u32, launcher: bool) -> plimsoll_kernel::Result<Self> {
        let walk = Walk::new(Process::open(pid as i32)?, MOST);
        Ok(Watched {
            walk,
            launcher,
            stalls: Taskstats::open().ok(),
            collections: Collections::default(),
            heaps: Heaps::default(),
            rescans: 0,
            last: Seen::default(),
        })
    }

    /// Looks at the program. Once it is gone, the counts are the last known ones.
    pub fn look(&mut self) -> Seen {
        // Most descendants appear at the start, so the first looks search for new ones every time.
        if self.rescans < 20 || self.rescans.is_multiple_of(10) {
            let _ = self.walk.rescan();
            self.collections.find(&self.pids());
        }
        self.rescans = self.rescans.wrapping_add(1);
        let root = (!self.launcher).then(|| self.walk.root());
        let mut seen = Seen {
            alive: self.walk.root().alive(),
            ..Seen::default()
        };
        for process in root.into_iter().chain(self.walk.members()) {
            let Ok(memory) = process.memory() else {
                continue;
            };
            let shmem = self.heaps.bytes(process.pid(), memory.shmem.0);
            seen.uses += memory.anon.0 + shmem;
            seen.swapped += memory.swap.0;
            if let Ok(stat) = process.stat() {
                seen.major_faults += stat.faults.major;
                seen.processor_ticks += stat.cpu_ticks;
            }
            if let Some(stalls) = &mut self.stalls {
                seen.stalls += stalls.process(process.pid()).map_or(0, |s| s.reclaim_count);
            }
        }
        (seen.collections, seen.collection_ns) = self.collections.look();
        seen.major_faults = seen.major_faults.max(self.last.major_faults);
        seen.stalls = seen.stalls.max(self.last.stalls);
        self.last = seen;
        seen
    }

    /// The processes of the program.
    pub fn pids(&self) -> Vec<i32> {
        let root = (!self.launcher).then(|| self.walk.root().pid());
        root.into_iter()
            .chain(self.walk.members().iter().map(Process::pid))
            .collect()
    }
}

/// Corrects for ZGC without generations, which maps its heap three times, so that each page counts
/// three times. The size of its memory file is right, except that it includes swapped pages.
#[derive(Debug, Default)]
struct Heaps(HashMap<i32, PathBuf>);

impl Heaps {
    /// The true resident shared memory of a process for which `/proc` shows `shown` bytes.
    fn bytes(&mut self, pid: i32, shown: u64) -> u64 {
        if shown < 8 << 20 {
            return shown;
        }
        if let Entry::Vacant(entry) = self.0.entry(pid)
            && let Some(path) = java(pid).and_then(|java| heap_file(&java))
        {
            entry.insert(path);
        }
        let file = self.0.get(&pid).and_then(|path| path.metadata().ok());
        file.map_or(shown, |file| shown.min(file.blocks() * 512))
    }
}

fn java(pid: i32) -> Option<plimsoll_runtimes::process::Process> {
    plimsoll_runtimes::process::Process::new(u32::try_from(pid).ok()?).ok()
}

/// Counters of the cgroup and of the machine's swap, relative to when the watch began.
#[derive(Debug)]
pub struct Group {
    cgroup: Cgroup,
    hits: u64,
    traffic: u64,
}

/// The result of [`Group::look`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupSeen {
    /// Bytes of the cgroup that cannot be dropped for free.
    pub used: u64,
    /// Bytes of the cgroup in swap.
    pub swapped: u64,
    /// Number of times that the limit was hit.
    pub limit_hits: u64,
    /// Number of pages that the machine swapped in or out.
    pub swap_traffic: u64,
}

impl Group {
    /// Starts the counts at 0.
    pub fn new(cgroup: Cgroup) -> Self {
        let mut group = Group {
            cgroup,
            hits: 0,
            traffic: 0,
        };
        let seen = group.look();
        (group.hits, group.traffic) = (seen.limit_hits, seen.swap_traffic);
        group
    }

    /// The present values.
    pub fn look(&self) -> GroupSeen {
        GroupSeen {
            used: self.cgroup.used().unwrap_or_default().0,
            swapped: self.cgroup.swapped().unwrap_or_default().0,
            limit_hits: self
                .cgroup
                .events()
                .map_or(0, |e| e.max)
                .saturating_sub(self.hits),
            swap_traffic: swap_pages().saturating_sub(self.traffic),
        }
    }
}

/// Number of pages swapped in and out since boot.
fn swap_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|value| value.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    of("pswpin ") + of("pswpout ")
}
