//! `memory.stat` of both versions under one set of names.
//! Source: kernel documents `cgroup-v1/memory.rst` 5.2 and `cgroup-v2.rst` ("memory.stat").

use super::Version;
use crate::parse::{lines, pair};
use plimsoll_unit::Bytes;

/// The parts of a cgroup's memory with its descendants. Bytes, and counts since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Anonymous memory mapped into processes (without tmpfs).
    pub anon: u64,
    /// Page cache, tmpfs included.
    pub file: u64,
    /// tmpfs and shared anonymous memory.
    pub shmem: u64,
    /// File pages not used of late.
    pub inactive_file: u64,
    /// File pages used of late.
    pub active_file: u64,
    /// Anonymous memory and tmpfs, not used of late.
    pub inactive_anon: u64,
    /// Anonymous memory and tmpfs, used of late.
    pub active_anon: u64,
    /// Pages that are both in memory and in swap. Processes may have them mapped: those that came
    /// back from swap, and were not written to since, keep their place there.
    pub swapcached: u64,
    /// Locked memory and the like.
    pub unevictable: u64,
    /// File pages that must be written before they can be dropped.
    pub dirty: u64,
    /// Pages on the way to the disk.
    pub writeback: u64,
    /// Kernel slabs that can be dropped (v2 only).
    pub slab_reclaimable: u64,
    /// Bytes in swap (v1 only; v2 has `memory.swap.current`).
    pub swap: u64,
    /// Faults that had to read from the disk, count.
    pub major_faults: u64,
    /// Anonymous pages that came back after eviction, count.
    pub refault_anon: u64,
    /// File pages that came back after eviction, count.
    pub refault_file: u64,
    /// Pages that allocating threads had to scan (v2 only), count.
    pub scan_direct: u64,
    /// Pages that allocating threads had to evict (v2 only), count.
    pub steal_direct: u64,
}

impl Stat {
    /// Parses the text. Missing names stay 0. In v1, `hierarchical` selects the `total_` lines
    /// instead of the plain ones.
    pub fn parse(text: &[u8], version: Version, hierarchical: bool) -> Stat {
        let mut stat = Stat::default();
        let totals = version == Version::V1 && hierarchical;
        for line in lines(text) {
            let of_all = line.strip_prefix(b"total_");
            let line = match (version, of_all) {
                (Version::V1, Some(line)) if totals => line,
                (Version::V1, None) if !totals => line,
                (Version::V2, _) => line,
                _ => continue,
            };
            match (version, pair(line)) {
                (Version::V1, Some((name, value))) => stat.note_v1(name, value),
                (Version::V2, Some((name, value))) => stat.note_v2(name, value),
                (_, None) => {}
            }
        }
        stat
    }

    fn note_v1(&mut self, name: &[u8], value: u64) {
        match name {
            b"rss" => self.anon = value,
            b"cache" => self.file = value,
            b"dirty" => self.dirty = value,
            b"writeback" => self.writeback = value,
            b"swap" => self.swap = value,
            _ => self.note_both(name, value),
        }
    }

    fn note_v2(&mut self, name: &[u8], value: u64) {
        match name {
            b"anon" => self.anon = value,
            b"file" => self.file = value,
            b"file_dirty" => self.dirty = value,
            b"file_writeback" => self.writeback = value,
            b"slab_reclaimable" => self.slab_reclaimable = value,
            b"pgscan_direct" => self.scan_direct = value,
            b"pgsteal_direct" => self.steal_direct = value,
            _ => self.note_both(name, value),
        }
    }

    fn note_both(&mut self, name: &[u8], value: u64) {
        match name {
            b"shmem" => self.shmem = value,
            b"inactive_file" => self.inactive_file = value,
            b"active_file" => self.active_file = value,
            b"inactive_anon" => self.inactive_anon = value,
            b"active_anon" => self.active_anon = value,
            b"swapcached" => self.swapcached = value,
            b"unevictable" => self.unevictable = value,
            b"pgmajfault" => self.major_faults = value,
            b"workingset_refault_anon" => self.refault_anon = value,
            b"workingset_refault_file" => self.refault_file = value,
            _ => {}
        }
    }

    /// Memory that the kernel can free without writing anything and that no process uses: clean
    /// inactive file pages, and those pages of the swap cache that no process has mapped.
    pub fn droppable(&self) -> Bytes {
        let files = Bytes(self.inactive_file) - Bytes(self.dirty);
        files + Bytes(self.swapcached).min(self.unmapped())
    }

    /// Anonymous memory that no process has mapped: in the swap cache only. Locked memory is in
    /// none of the lists, so this is too little where there is some, never too much.
    fn unmapped(&self) -> Bytes {
        let listed = Bytes(self.inactive_anon) + Bytes(self.active_anon);
        listed - Bytes(self.shmem) - Bytes(self.anon)
    }
}

/// Events at a group's limit, counts since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// The limit was hit (v1 `memory.failcnt`, v2 `max`).
    pub max: u64,
    /// The soft limit was hit (v2 `high`).
    pub high: u64,
    /// The group ran out of memory.
    pub oom: u64,
    /// Processes killed for it.
    pub oom_kill: u64,
}

impl Events {
    /// Parses v2's `memory.events`, and of v1's `memory.oom_control` the fields that exist there.
    pub fn parse(text: &[u8]) -> Events {
        let mut events = Events::default();
        for line in lines(text) {
            match pair(line) {
                Some((b"max", n)) => events.max = n,
                Some((b"high", n)) => events.high = n,
                Some((b"oom", n)) => events.oom = n,
                Some((b"oom_kill", n)) => events.oom_kill = n,
                _ => {}
            }
        }
        events
    }
}
