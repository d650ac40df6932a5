//! How much of a machine's memory is heap and how much is native, measured from `/proc/PID/smaps`.

use super::machine::Collector;
use crate::process::Process;
use plimsoll_kernel::descriptors::{self, Open};
use std::cell::OnceCell;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Bytes of `smaps` that are read at most. A process with 65,530 areas, the kernel's default bound,
/// has 50 MiB.
const MAX_SMAPS: u64 = 64 << 20;

/// Resident memory of one machine, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The heap.
    pub heap: u64,
    /// All other memory of the machine: code, classes, stacks, malloc, the collector's tables.
    pub native: u64,
    /// Native memory in swap, not counted in `native`.
    pub native_swapped: u64,
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

    /// Resident bytes.
    ///
    /// # Errors
    /// As reading `/proc` says.
    pub fn uses(&self) -> io::Result<u64> {
        self.uses_and_swapped().map(|(uses, _)| uses)
    }

    /// Resident bytes, and bytes of private memory in swap. Parts of ZGC's memory file in swap
    /// count as resident.
    ///
    /// # Errors
    /// As reading `/proc` says.
    pub fn uses_and_swapped(&self) -> io::Result<(u64, u64)> {
        let memory = self.process.memory()?;
        let heap = self
            .heap_file()
            .and_then(|file| std::fs::metadata(file).ok());
        let shared = heap.map_or(memory.shmem, |h| h.blocks().saturating_mul(512));
        Ok((memory.anon.saturating_add(shared), memory.swap))
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
    let file = std::fs::File::open(process.path("smaps"))?;
    parse(
        BufReader::with_capacity(64 << 10, file.take(MAX_SMAPS)),
        heap,
    )
}

fn parse(mut smaps: impl BufRead, heap: Option<&Range<u64>>) -> io::Result<Footprint> {
    let mut footprint = Footprint::default();
    let (mut in_heap, mut shared) = (false, false);
    let mut line = Vec::new();
    loop {
        line.clear();
        if smaps.read_until(b'\n', &mut line)? == 0 {
            return Ok(footprint);
        }
        if line
            .first()
            .is_some_and(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        {
            let text = String::from_utf8_lossy(&line);
            let memory_file = text.contains("java_heap");
            shared = memory_file || text.contains("/dev/shm/") || text.contains("/memfd:");
            in_heap =
                memory_file || heap.is_some_and(|h| start(&text).is_some_and(|a| h.contains(&a)));
            continue;
        }
        let key = if shared { "Pss:" } else { "Anonymous:" };
        if !in_heap
            && let Some(bytes) = std::str::from_utf8(&line)
                .ok()
                .and_then(|l| value(l, "Swap:"))
        {
            footprint.native_swapped += bytes;
        }
        if let Some(bytes) = std::str::from_utf8(&line).ok().and_then(|l| value(l, key)) {
            *(if in_heap {
                &mut footprint.heap
            } else {
                &mut footprint.native
            }) += bytes;
        }
    }
}

fn start(line: &str) -> Option<u64> {
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

fn value(line: &str, key: &str) -> Option<u64> {
    let kib: u64 = line
        .strip_prefix(key)?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_and_native_part_are_told_apart() {
        let smaps = "da800000-e0000000 rw-p 00000000 00:00 0 \nRss: 900 kB\nAnonymous:      800 kB\n\
                     7f0000000000-7f0000001000 r--p 0 08:01 7 /lib/libjvm.so\nRss: 50 kB\nAnonymous: 4 \
                     kB\nSwap: 3 kB\n\
                     4000000000-4000200000 rw-s 0 00:01 9 /memfd:java_heap (deleted)\nPss: 30 \
                     kB\nAnonymous: 0 kB\n";
        let heap = 0xda80_0000..0x1_0000_0000;
        let footprint = parse(smaps.as_bytes(), Some(&heap)).unwrap();
        assert_eq!(
            footprint,
            Footprint {
                heap: 830 << 10,
                native: 4 << 10,
                native_swapped: 3 << 10,
            }
        );
    }
}
