//! Reads bytes as a file in ELF that a process has mapped, with the names that every runtime looks for,
//! and as that process's memory. Each runtime ends for all bytes, and labels nothing that is not mapped.

#![no_main]

#[path = "runtimes/elf.rs"]
mod elf;

use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use plimsoll_map::memory::{Memory, Unread};
use plimsoll_map::runtimes::ALL;
use plimsoll_map::{Labels, Snapshot};
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the file is mapped.
const BASE: u64 = 0x5500_0000_0000;
/// Memory that programs allocate: where Java's heap is, where Go's is, and where the kernel puts it.
const ALLOCATED: [Addresses; 3] = [
    0x8000_0000..0x8100_0000,
    0xc0_0000_0000..0xc0_0400_0000,
    0x7f00_0000_0000..0x7f00_0040_0000,
];
/// Names under which runtimes look for the file; the last one is the executable.
const NAMES: [&str; 5] = ["libjvm.so", "libpython3.12.so.1.0", "libnode.so.115", "libgc.so.1", "program"];
/// Most reads of one look.
const READS: u64 = 8 << 20;

/// A process's memory: the file, and words that depend on the input and their address.
struct Made<'a> {
    file: &'a [u8],
    seed: &'a [u8],
    reads: Cell<u64>,
}

impl Made<'_> {
    fn word(&self, at: u64) -> u64 {
        let mut x = at;
        for bytes in self.seed.chunks(8).take(4) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            x = (x ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= x >> 29;
        }
        let range = &ALLOCATED[(x >> 8) as usize % ALLOCATED.len()];
        let inside = range.start + (x >> 16) % (range.end - range.start);
        match x % 8 {
            0 => 0,
            1 => x >> 56,
            2 => inside / 8 * 8,
            3 => inside / 4096 * 4096,
            4 => range.end,
            5 => BASE + (x >> 16) % self.file.len() as u64 / 8 * 8,
            // The words of the input, in its order.
            6 => u64::from(self.seed.get(at as usize / 8 % self.seed.len().max(1)).copied().unwrap_or(0)),
            _ => x,
        }
    }
}

impl Memory for Made<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < READS, "it reads without end");
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.checked_add(offset as u64).ok_or(Unread::Unmapped)?;
            let in_file = at.checked_sub(BASE).and_then(|at| self.file.get(at as usize));
            *byte = match in_file {
                Some(byte) => *byte,
                None if ALLOCATED.iter().any(|range| range.contains(&at)) => {
                    self.word(at / 8 * 8).to_le_bytes()[(at % 8) as usize]
                }
                None => return Err(Unread::Unmapped),
            };
        }
        Ok(())
    }
}

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(format!("/dev/shm/plimsoll-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder in memory");
        folder
    })
}

fn snapshot(name: &str, length: u64) -> Snapshot {
    let path = folder().join(name);
    let there = std::fs::metadata(&path).expect("it was written");
    let area = |addresses: Addresses| Area {
        addresses,
        readable: true,
        writable: true,
        ..Area::default()
    };
    let device = there.dev();
    let file = Area {
        file: FileKey {
            major: libc::major(device),
            minor: libc::minor(device),
            inode: there.ino(),
        },
        name: path.display().to_string(),
        ..area(BASE..BASE + length.next_multiple_of(4096))
    };
    let mut mappings: Vec<Area> = ALLOCATED.iter().cloned().map(area).chain([file]).collect();
    mappings.sort_by_key(|area| area.addresses.start);
    Snapshot {
        executable: path,
        mappings,
        ..Snapshot::default()
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [which, changes, rest @ ..] = bytes else { return };
    let runtime = ALL[usize::from(*which) % ALL.len()];
    // The last name is right for each of them.
    let name = NAMES[usize::from(*which >> 4) % NAMES.len()];
    let mut file = elf::file(rest);
    let (patches, seed) = rest.split_at(rest.len().min(usize::from(*changes % 64) * 4));
    for patch in patches.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([patch[0], patch[1]])) % file.len();
        file[at] = patch[2];
        let next = (at + 1) % file.len();
        file[next] ^= patch[3];
    }
    std::fs::write(folder().join(name), &file).expect("memory");
    let snapshot = snapshot(name, file.len() as u64);
    let memory = Made { file: &file, seed, reads: Cell::new(0) };
    let mut labels = Labels::default();
    let _ = runtime.runs(&snapshot.candidate());
    runtime.label(&snapshot, &memory, &mut labels);
    for label in &labels.labels {
        assert!(label.addresses.start < label.addresses.end);
        let inside = |area: &Area| area.addresses.contains(&label.addresses.start);
        assert!(snapshot.mappings.iter().any(inside), "{label:x?} is outside");
    }
});
