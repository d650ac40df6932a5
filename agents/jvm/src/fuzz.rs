//! The entry point for fuzzers: a plain function that takes any bytes and must neither panic nor loop.

use crate::counters::Counters;
use crate::heap::Heap;
use crate::machine::Machine;
use plimsoll_programs::hotspot::tables::{Field, Place, Source, Tables};
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::Kind;

/// Types and fields that the agent asks for.
const FIELDS: [(&str, &str); 32] = [
    ("Abstract_VM_Version", "_vm_major_version"),
    ("Universe", "_collectedHeap"),
    ("CollectedHeap", "_reserved"),
    ("MemRegion", "_start"),
    ("MemRegion", "_word_size"),
    ("SerialHeap", "_young_gen"),
    ("SerialHeap", "_old_gen"),
    ("DefNewGeneration", "_eden_space"),
    ("DefNewGeneration", "_from_space"),
    ("DefNewGeneration", "_to_space"),
    ("TenuredGeneration", "_the_space"),
    ("ContiguousSpace", "_bottom"),
    ("ContiguousSpace", "_top"),
    ("ContiguousSpace", "_end"),
    ("ParallelScavengeHeap", "_young_gen"),
    ("ParallelScavengeHeap", "_old_gen"),
    ("PSYoungGen", "_eden_space"),
    ("PSYoungGen", "_from_space"),
    ("PSYoungGen", "_to_space"),
    ("PSOldGen", "_object_space"),
    ("MutableSpace", "_bottom"),
    ("MutableSpace", "_top"),
    ("MutableSpace", "_end"),
    ("G1CollectedHeap", "_hrm"),
    ("G1HeapRegionManager", "_regions"),
    ("G1HeapRegionTable", "_base"),
    ("G1HeapRegionTable", "_length"),
    ("G1HeapRegion", "_bottom"),
    ("G1HeapRegion", "_top"),
    ("G1HeapRegion", "_end"),
    ("G1HeapRegion", "_type"),
    ("G1HeapRegionType", "_tag"),
];
/// Those of its table of flags and of its counters.
const MORE: [(&str, &str); 5] = [
    ("JVMFlag", "flags"),
    ("JVMFlag", "_name"),
    ("JVMFlag", "_addr"),
    ("PerfMemory", "_start"),
    ("PerfMemory", "_capacity"),
];
/// Flags that it reads.
const FLAGS: [&str; 7] = [
    "UseSerialGC",
    "UseParallelGC",
    "UseG1GC",
    "UseNUMA",
    "UseLargePages",
    "UseTransparentHugePages",
    "AllocateHeapAt",
];
const FREE: &str = "G1HeapRegionType::FreeTag";
/// Words of the memory that the tables are in, and point to.
const WORDS: usize = 1024;
/// Most words that are read of the tables.
const READS: u64 = 16 << 20;

/// Memory of a machine as the bytes have it, at its true address: what is read there by address is read.
struct Memory {
    words: Box<[u64; WORDS]>,
    reads: std::cell::Cell<u64>,
}

impl Memory {
    /// A word whose lowest bits are 01 is a place in this memory, any other is what it says.
    fn new(bytes: &[u8]) -> Memory {
        let mut words = Box::new([0; WORDS]);
        let start = words.as_ptr() as u64;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            let said = u64::from_le_bytes(whole);
            *word = match said % 4 {
                1 => start + (said >> 2) % WORDS as u64 * 8,
                _ => said,
            };
        }
        Memory {
            words,
            reads: std::cell::Cell::new(0),
        }
    }

    fn start(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    fn word(&self, at: u64) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < READS, "it reads without end");
        let offset = at.checked_sub(self.start())?;
        self.words.get(offset as usize / 8).copied()
    }
}

impl Source for Memory {
    fn exported(&self, name: &str) -> Option<u64> {
        let place = name
            .bytes()
            .fold(0, |sum: u64, byte| sum * 31 % 61 + u64::from(byte));
        Some(self.start() + place % 61 * 8)
    }

    fn pointer_at(&self, at: u64) -> Option<u64> {
        self.pointer(at)
    }

    fn pointer(&self, at: u64) -> Option<u64> {
        self.word(at).filter(|&to| to != 0)
    }

    fn number(&self, at: u64) -> Option<u64> {
        self.word(at)
    }

    fn half(&self, at: u64) -> Option<u32> {
        self.word(at).map(|word| word as u32)
    }

    /// A name that the agent knows, by its number.
    fn name_at(&self, at: u64, _most: usize) -> Option<String> {
        let known = FIELDS.iter().chain(&MORE);
        let mut names = known.flat_map(|(kind, name)| [*kind, *name]).chain(FLAGS);
        let count = (FIELDS.len() + MORE.len()) * 2 + FLAGS.len();
        let number = self.pointer(at)? as usize % count;
        names.nth(number).map(str::to_owned)
    }
}

/// Reads the bytes as the tables of a machine, by the reader that agents use, and then as tables that have
/// all names, with places as the bytes say. Looks for the heap and the counters by both. Nothing is given
/// back.
pub fn fuzz_tables(bytes: &[u8]) {
    let mut memory = Memory::new(bytes);
    if let Some(tables) = Tables::read(&mut memory) {
        look(tables);
    }
    let (mut tables, start) = (Tables::default(), memory.start());
    let mut said = bytes
        .chunks_exact(2)
        .map(|pair| (pair[0], u64::from(pair[1])));
    for (kind, name) in FIELDS.iter().chain(&MORE) {
        let Some((how, where_to)) = said.next() else {
            break;
        };
        let place = match how % 8 {
            0 => continue,
            1 => Place::Static(where_to << 40),
            2..=4 => Place::Static(start + where_to * 8),
            _ => Place::Offset(where_to * 4),
        };
        let kind_of = if how < 128 { "" } else { "T*" };
        let field = Field {
            place,
            kind: kind_of.to_owned(),
        };
        tables
            .fields
            .insert(((*kind).to_owned(), (*name).to_owned()), field);
    }
    for flag in FLAGS {
        let at = said.next().map_or(0, |(_, where_to)| start + where_to * 8);
        tables.flags.insert(flag.to_owned(), at);
    }
    tables
        .constants
        .insert(FREE.to_owned(), i64::from(bytes.len() as u8));
    look(tables);
    drop(memory);
}

fn look(tables: Tables) {
    // SAFETY: what is found was readable a moment before, and nobody unmaps it meanwhile: it is the memory of
    // these tables, which outlives this, or an address that these bytes hit by chance.
    let machine = unsafe { Machine::with(tables) };
    let _ = (machine.version(), machine.has_text("CRaCCheckpointTo"));
    if let Some(mut counters) = Counters::of(&machine) {
        counters.begin();
        let _ = counters.kind();
    }
    match Heap::of(&machine) {
        Ok(mut heap) => {
            // SAFETY: no machine runs that could change it.
            let _ = unsafe { heap.begin() };
            // SAFETY: as above; without a wish, because what it found is no heap, and nothing of it may go.
            let _ = unsafe { heap.end(None, Kind::Full, Nanos(1)) };
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_tables_or_none(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz_tables(&bytes);
        }

        #[test]
        fn so_are_places_in_their_own_memory(
            words in prop::collection::vec(0..WORDS as u64, 0..200),
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| (word << 2 | 1).to_le_bytes()).collect();
            fuzz_tables(&bytes);
        }
    }
}
