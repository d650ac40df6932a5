//! `/proc/meminfo`: the machine's memory. Source: kernel document `proc.rst`, "meminfo".

use crate::parse::{lines, pair};
use crate::reader::Reader;
use crate::{Error, Result};
use plimsoll_unit::Bytes;

/// Longest text that is read, bytes. The real text is less than half as long; the buffer lies on
/// the stack, which may be small.
const MAX_TEXT: usize = 4 << 10;

/// The machine's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// All memory that the kernel manages.
    pub total: Bytes,
    /// Not in use at all.
    pub free: Bytes,
    /// The kernel's own estimate of what a new program could get without swapping.
    pub available: Bytes,
    /// File pages not used of late.
    pub inactive_file: Bytes,
    /// File pages used of late.
    pub active_file: Bytes,
    /// Anonymous memory and tmpfs, not used of late.
    pub inactive_anon: Bytes,
    /// Anonymous memory and tmpfs, used of late.
    pub active_anon: Bytes,
    /// Locked memory of all kinds, and the like.
    pub unevictable: Bytes,
    /// Pages in memory that are in swap too.
    pub swap_cached: Bytes,
    /// tmpfs and shared anonymous memory.
    pub shmem: Bytes,
    /// File pages that must be written before they can be dropped.
    pub dirty: Bytes,
    /// Pages on the way to the disk.
    pub writeback: Bytes,
    /// Kernel slabs that can be dropped.
    pub slab_reclaimable: Bytes,
    /// Swap space.
    pub swap_total: Bytes,
    /// Swap space not in use.
    pub swap_free: Bytes,
}

impl Meminfo {
    /// Parses the text; lines that are missing stay 0.
    pub fn parse(text: &[u8]) -> Meminfo {
        let mut m = Meminfo::default();
        for line in lines(text) {
            let Some((name, value)) = pair(line) else {
                continue;
            };
            let value = Bytes(value);
            match name {
                b"MemTotal" => m.total = value,
                b"MemFree" => m.free = value,
                b"MemAvailable" => m.available = value,
                b"Inactive(file)" => m.inactive_file = value,
                b"Active(file)" => m.active_file = value,
                b"Inactive(anon)" => m.inactive_anon = value,
                b"Active(anon)" => m.active_anon = value,
                b"Unevictable" => m.unevictable = value,
                b"SwapCached" => m.swap_cached = value,
                b"Shmem" => m.shmem = value,
                b"Dirty" => m.dirty = value,
                b"Writeback" => m.writeback = value,
                b"SReclaimable" => m.slab_reclaimable = value,
                b"SwapTotal" => m.swap_total = value,
                b"SwapFree" => m.swap_free = value,
                _ => {}
            }
        }
        m
    }

    /// Memory that could go to swap, if there were room.
    pub fn anonymous(&self) -> Bytes {
        self.inactive_anon + self.active_anon
    }

    /// Memory in use that cannot be dropped for free: total - free - clean inactive file pages -
    /// swap cache - half of the reclaimable slabs (the kernel is reluctant to drop the other half).
    /// Never less than total - available, so as not to be more optimistic than the kernel.
    pub fn used(&self) -> Bytes {
        let files = self.inactive_file - self.dirty;
        let droppable = files + self.swap_cached + self.slab_reclaimable / 2;
        let used = self.total - self.free - droppable;
        // Kernels before 3.14 have no `MemAvailable`.
        if self.available == Bytes::ZERO {
            used
        } else {
            used.max(self.total - self.available)
        }
    }
}

/// `/proc/meminfo`, open.
#[derive(Debug)]
pub struct MeminfoReader(Reader);

impl MeminfoReader {
    /// Opens it.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn open() -> Result<MeminfoReader> {
        Ok(MeminfoReader(Reader::open("/proc/meminfo")?))
    }

    /// Reads it, about 10 us.
    ///
    /// # Errors
    /// [`Error::Broken`] when there is no `MemTotal`.
    pub fn read(&self) -> Result<Meminfo> {
        let mut buffer = [0; MAX_TEXT];
        let meminfo = Meminfo::parse(self.0.read(&mut buffer)?);
        if meminfo.total == Bytes::ZERO {
            return Err(Error::Broken {
                path: self.0.path().to_path_buf(),
                why: "it has no line `MemTotal`",
            });
        }
        Ok(meminfo)
    }
}
