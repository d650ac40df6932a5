//! How much of a machine's memory is heap and how much is native, measured from its areas.

use super::collector::Collector;
use super::control::RETURNING;
use crate::process::{Process, Watched};
use plimsoll_kernel::descriptors::{self, Open};
use plimsoll_kernel::pagemap_scan::{GUARD, PRESENT, SWAPPED, ZERO};
use plimsoll_kernel::pages::{PageMap, Tier};
use plimsoll_kernel::process::Process as Opened;
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
    /// The same, held open.
    watched: Watched,
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
            watched: Watched::new(process),
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
        let memory = self.watched.memory()?;
        let heap = self
            .heap_file()
            .and_then(|file| std::fs::metadata(file).ok());
        let shared = heap.map_or(memory.shmem, |h| Bytes(h.blocks()) * 512);
        Ok((memory.anon + shared, memory.swap))
    }

    /// The process, held open.
    pub(super) fn watched(&self) -> &Watched {
        &self.watched
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

/// After this many measurements the areas are walked again.
const WALK_EACH: u32 = 32;
/// Two measurements of a program that runs are the same if they differ by less than this, or by less than one
/// part in [`NEAR_PART`].
const NEAR: Bytes = Bytes::mib(8);
const NEAR_PART: u64 = 16;

/// Measures heap and native part of one machine.
///
/// A walk of its areas (`smaps`) tells all, but looks at what the kernel keeps of each page. A scan of the
/// heap in the page map does not, and takes a tenth of the time; the rest of the memory is the native part
/// then.
/// That holds where all of the heap is anonymous memory in small or huge pages: not where it is a file, or of
/// hugetlbfs. So the scan is used while it tells what the walk told last.
#[derive(Debug)]
pub struct Surveyor {
    /// The machine's process.
    process: Process,
    /// The addresses of its heap; `None` if that is a memory file.
    heap: Option<Range<u64>>,
    /// Its page map; opened at the first measurement, `None` where that cannot be scanned.
    map: Option<PageMap>,
    /// Measurements until the next walk; 0 where the scan did not tell what the last walk told.
    until_walk: u32,
    /// The walks so far.
    walks: u32,
}

impl Surveyor {
    /// Nothing was measured yet.
    pub fn of(process: Process, heap: Option<Range<u64>>) -> Surveyor {
        Surveyor {
            process,
            heap,
            map: None,
            until_walk: 0,
            walks: 0,
        }
    }

    /// The walks of all areas so far: each takes tens of milliseconds per gibibyte.
    pub fn walks(&self) -> u32 {
        self.walks
    }

    /// Measures. Takes milliseconds per gibibyte, so do not call it often. `watched` is the process.
    ///
    /// # Errors
    /// As reading `/proc` says.
    pub fn measure(&mut self, watched: &Watched) -> io::Result<Footprint> {
        let is_trusted = self.until_walk > 0;
        self.until_walk = self.until_walk.saturating_sub(1);
        if is_trusted && let Some(scanned) = self.scan(watched) {
            return Ok(scanned);
        }
        if self.map.is_none() && self.heap.is_some() {
            self.map = page_map(&self.process);
        }
        let walked = self.walk()?;
        // A program that fills its heap differs between the two, and is compared again next time.
        let scanned = self.scan(watched);
        let is_near = scanned.is_some_and(|scanned| scanned.is_near(&walked));
        self.until_walk = if is_near { WALK_EACH } else { 0 };
        Ok(walked)
    }

    /// Measures by the areas.
    fn walk(&mut self) -> io::Result<Footprint> {
        self.walks = self.walks.saturating_add(1);
        let mut footprint = Footprint::default();
        each_area(self.process.pid, &mut |area| {
            footprint.add(area, self.heap.as_ref());
            true
        })?;
        Ok(footprint)
    }

    /// Measures by the page map; `None` where that is not possible.
    fn scan(&self, watched: &Watched) -> Option<Footprint> {
        let (map, heap) = (self.map.as_ref()?, self.heap.as_ref()?);
        let (mut present, mut swapped) = (Bytes::ZERO, Bytes::ZERO);
        let mut add = |run: Range<u64>, kind: u64| {
            let bytes = Bytes(run.end - run.start);
            if kind & PRESENT != 0 && kind & ZERO == 0 {
                present += bytes;
            } else if kind & SWAPPED != 0 && kind & GUARD == 0 {
                swapped += bytes;
            }
            true
        };
        map.each_place(heap, &mut add).ok()?;
        let all = watched.memory().ok()?;
        Some(Footprint {
            heap: present,
            native: all.anon - present,
            native_swapped: all.swap - swapped,
        })
    }
}

/// The page map of a process, if a scan of it is faster than a walk of the areas.
fn page_map(process: &Process) -> Option<PageMap> {
    let pid = i32::try_from(process.pid).ok()?;
    let opened = Opened::open_known(pid, process.started).ok()?;
    let map = PageMap::open(&opened).ok()?;
    (map.tier() == Tier::Scan).then_some(map)
}

impl Footprint {
    /// Whether two measurements of a program that runs show the same.
    fn is_near(&self, other: &Footprint) -> bool {
        let near = |one: Bytes, other: Bytes| {
            let most = one.max(other);
            most - one.min(other) < NEAR.max(most / NEAR_PART)
        };
        near(self.heap, other.heap)
            && near(self.native, other.native)
            && near(self.native_swapped, other.native_swapped)
    }

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

    /// Anonymous memory of 32 MiB, all of it touched, in an area of its own: a heap in this very process.
    fn touched() -> Range<u64> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        const BYTES: usize = 32 << 20;
        const GUARD: usize = 2 << 20;
        let nowhere = std::ptr::null_mut();
        let (all, none) = (BYTES + 2 * GUARD, ProtFlags::empty());
        // SAFETY: a fresh mapping, placed by the kernel; never unmapped.
        let all = unsafe { mmap_anonymous(nowhere, all, none, MapFlags::PRIVATE) }.unwrap();
        let start = all.wrapping_byte_add(GUARD);
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: its middle, which nobody else knows, and which is readable and writable then.
        unsafe {
            mprotect(start, BYTES, access).unwrap();
            start.cast::<u8>().write_bytes(1, BYTES);
        }
        let start = start.addr() as u64;
        start..start + BYTES as u64
    }

    #[test]
    fn a_heap_is_walked_once_in_many_measurements_and_measured_all_the_same() {
        let process = Process::new(std::process::id()).unwrap();
        let watched = Watched::new(process);
        let mut surveyor = Surveyor::of(process, Some(touched()));
        // Other tests take memory in this process, so the first comparisons may fail.
        while surveyor.until_walk == 0 {
            let walked = surveyor.measure(&watched).unwrap();
            assert_eq!(walked.heap, Bytes::mib(32));
            if surveyor.map.is_none() {
                return;
            }
        }
        let walks = surveyor.walks();
        for measured in 0..WALK_EACH {
            let scanned = surveyor.measure(&watched).unwrap();
            assert_eq!(
                (scanned.heap, surveyor.walks()),
                (Bytes::mib(32), walks),
                "{measured}"
            );
        }
        surveyor.measure(&watched).unwrap();
        assert_eq!(surveyor.walks(), walks + 1, "it is checked now and then");
    }

    #[test]
    fn where_the_scan_tells_another_size_each_measurement_is_a_walk() {
        let process = Process::new(std::process::id()).unwrap();
        let watched = Watched::new(process);
        // To the walk the heap is no heap, as its area begins below it.
        let heap = touched();
        let heap = heap.start + (1 << 20)..heap.end;
        let mut surveyor = Surveyor::of(process, Some(heap));
        for measured in 1..10 {
            let walked = surveyor.measure(&watched).unwrap();
            assert_eq!((walked.heap, surveyor.walks()), (Bytes::ZERO, measured));
        }
        let mut surveyor = Surveyor::of(process, None);
        for measured in 1..10 {
            surveyor.measure(&watched).unwrap();
            assert_eq!(surveyor.walks(), measured);
        }
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
