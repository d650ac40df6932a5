//! How much of a machine's memory is heap and how much is native, measured from its areas.

use super::collector::Collector;
use super::control::RETURNING;
use crate::process::Process;
use plimsoll_kernel::descriptors::{self, Open};
use plimsoll_kernel::smaps::{Area, each_area};
use plimsoll_unit::{Bytes, Nanos};
use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Resident memory of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The heap.
    pub heap: Bytes,
    /// All other memory of the machine: code, classes, stacks, malloc, the collector's tables.
    pub native: Bytes,
    /// Native memory in swap, not counted in `native`.
    pub native_swapped: Bytes,
}

/// Reads a machine's resident and swapped memory in 20 microseconds. In versions without
/// generations ZGC maps its heap three times, so resident pages count three times there; the size
/// of its memory file is used instead.
#[derive(Debug)]
pub struct Gauge {
    /// The machine's process.
    process: Process,
    /// Its collector.
    collector: Collector,
    /// The path of ZGC's memory file. Looked for until found, because a starting machine has none
    /// yet.
    heap_file: OnceCell<PathBuf>,
}

impl Gauge {
    /// A gauge for this machine.
    pub fn new(process: Process, collector: Collector) -> Gauge {
        Gauge {
            process,
            collector,
            heap_file: OnceCell::new(),
        }
    }

    /// Resident memory.
    ///
    /// # Errors
    /// As reading `/proc` says.
    pub fn uses(&self) -> io::Result<Bytes> {
        self.uses_and_swapped().map(|(uses, _)| uses)
    }

    /// Resident memory, and private memory in swap. Parts of ZGC's memory file in swap
    /// count as resident.
    ///
    /// # Errors
    /// As reading `/proc` says.
    pub fn uses_and_swapped(&self) -> io::Result<(Bytes, Bytes)> {
        let memory = self.process.memory()?;
        let heap = self
            .heap_file()
            .and_then(|file| std::fs::metadata(file).ok());
        let shared = heap.map_or(memory.shmem, |h| Bytes(h.blocks()) * 512);
        Ok((memory.anon + shared, memory.swap))
    }

    fn heap_file(&self) -> Option<&PathBuf> {
        if self.collector == Collector::Z && self.heap_file.get().is_none() {
            let found = heap_file(&self.process)?;
            return Some(self.heap_file.get_or_init(|| found));
        }
        self.heap_file.get()
    }
}

/// The path of the descriptor of ZGC's memory file; `None` if there is none or it is hidden.
pub fn heap_file(process: &Process) -> Option<PathBuf> {
    let ours = |open: &Open| {
        let name = open.target.as_os_str().as_bytes();
        name.starts_with(b"/memfd:java_heap")
    };
    let mut files = descriptors::of(process.pid).ok()?.take(65_536);
    files.find(ours).map(|open| open.path)
}

/// Measures heap and native part. Takes milliseconds per gibibyte, so do not call it often.
///
/// # Errors
/// As reading `/proc` says.
pub fn measure(process: &Process, heap: Option<&Range<u64>>) -> io::Result<Footprint> {
    let mut footprint = Footprint::default();
    each_area(process.pid, &mut |area| {
        footprint.add(area, heap);
        true
    })?;
    Ok(footprint)
}

impl Footprint {
    /// Adds an area. Each mapping of shared memory counts its part (`Pss`), so that a heap that is mapped
    /// three times counts once.
    fn add(&mut self, area: &Area, heap: Option<&Range<u64>>) {
        let name = area.name.as_str();
        let memory_file = name.contains("java_heap");
        let is_shared = memory_file || name.contains("/dev/shm/") || name.contains("/memfd:");
        let bytes = if is_shared { area.pss } else { area.anonymous };
        if memory_file || heap.is_some_and(|heap| heap.contains(&area.addresses.start)) {
            self.heap += Bytes(bytes);
        } else {
            self.native += Bytes(bytes);
            self.native_swapped += Bytes(area.swap);
        }
    }
}

/// The most of a heap that may still be resident: G1 returns memory only after the collection that made the
/// heap smaller.
#[derive(Debug, Default)]
pub struct Returning {
    most: Bytes,
    /// When the heap was last as large.
    at: Nanos,
}

impl Returning {
    /// Takes in what is `touched` at this moment. Returns the most of them within the time that a machine
    /// takes to return memory.
    pub fn look(&mut self, touched: Bytes, now: Nanos) -> Bytes {
        if touched >= self.most || now - self.at > RETURNING {
            *self = Returning {
                most: touched,
                at: now,
            };
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_heap_gave_up_counts_as_heap_until_it_is_returned() {
        let mut heap = Returning::default();
        let at = Nanos::millis;
        assert_eq!(heap.look(Bytes(250), at(10)), Bytes(250));
        assert_eq!(heap.look(Bytes(250), at(1000)), Bytes(250));
        assert_eq!(heap.look(Bytes(200), at(1100)), Bytes(250));
        assert_eq!(heap.look(Bytes(180), at(1399)), Bytes(250));
        assert_eq!(heap.look(Bytes(180), at(1401)), Bytes(180));
        assert_eq!(heap.look(Bytes(190), at(1402)), Bytes(190));
    }

    #[test]
    fn heap_and_native_part_are_told_apart() {
        let area = |start: u64, name: &str| Area {
            addresses: start..start + 0x1000,
            name: name.to_owned(),
            rss: 900 << 10,
            ..Area::default()
        };
        let areas = [
            Area {
                anonymous: 800 << 10,
                swap: 1 << 10,
                ..area(0xda80_0000, "")
            },
            Area {
                anonymous: 4 << 10,
                pss: 50 << 10,
                swap: 3 << 10,
                ..area(0x7f00_0000_0000, "/lib/libjvm.so")
            },
            Area {
                pss: 30 << 10,
                ..area(0x40_0000_0000, "/memfd:java_heap (deleted)")
            },
            Area {
                pss: 2 << 10,
                ..area(0x7f01_0000_0000, "/dev/shm/other")
            },
        ];
        let heap = 0xda80_0000..0x1_0000_0000;
        let mut footprint = Footprint::default();
        for area in &areas {
            footprint.add(area, Some(&heap));
        }
        assert_eq!(
            footprint,
            Footprint {
                heap: Bytes(830 << 10),
                native: Bytes(6 << 10),
                native_swapped: Bytes(3 << 10),
            }
        );
    }
}
