//! Machines that are made up: what they say may be anything.

use super::{HotSpot, label, label_without};
use crate::area::Kind;
use crate::labels::Labels;
use crate::memory::{Memory, Unread};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use plimsoll_programs::Recognise;
use plimsoll_programs::hotspot::tables::{Field, Place, Tables};
use plimsoll_unit::MIB;
use proptest::prelude::*;
use std::collections::HashMap;

const OBJECTS: u64 = 0x10_0000;
const HEAP: u64 = 0x8000_0000;

/// Memory whose words are told one by one; all others are 0.
#[derive(Default)]
struct Script {
    words: HashMap<u64, u64>,
    absent: Vec<Addresses>,
}

impl Memory for Script {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        if self.absent.iter().any(|range| range.contains(&at)) {
            return Err(Unread::NotResident);
        }
        for (offset, byte) in into.iter_mut().enumerate() {
            let place = at.wrapping_add(offset as u64);
            let word = self.words.get(&(place & !7)).copied().unwrap_or(0);
            *byte = word.to_le_bytes()[(place & 7) as usize];
        }
        Ok(())
    }
}

/// Words at random, different at each address and at each read.
struct Noise {
    seed: u64,
    reads: std::cell::Cell<u64>,
    /// A word is one of these as often as it is random.
    likely: Vec<u64>,
}

impl Memory for Noise {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        let reads = self.reads.replace(self.reads.get() + 1);
        for (index, bytes) in into.chunks_mut(8).enumerate() {
            let mut x = self.seed
                ^ at.wrapping_add(index as u64)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= (reads / 64) << 32;
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
            let word = match x % 8 {
                0 => x,
                n => self.likely[(x >> 8) as usize % self.likely.len()].wrapping_add((n - 1) * 8),
            };
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}

fn area(addresses: Addresses, name: &str, writable: bool) -> Area {
    Area {
        addresses,
        name: name.into(),
        readable: writable,
        writable,
        file: FileKey {
            inode: u64::from(!name.is_empty()),
            ..FileKey::default()
        },
        // Absent memory is in swap.
        swap: 4096,
        ..Area::default()
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        mappings: vec![
            area(OBJECTS..OBJECTS + MIB, "", true),
            area(HEAP..HEAP + 64 * MIB, "", true),
            area(HEAP + 64 * MIB..HEAP + 128 * MIB, "", false),
            area(
                0x400_0000_0000..0x400_0400_0000,
                "/memfd:java_heap (deleted)",
                true,
            ),
            area(
                0x7f00_0000_0000..0x7f00_0100_0000,
                "/jdk/lib/server/libjvm.so",
                true,
            ),
        ],
        ..Snapshot::default()
    }
}

/// The fields of all versions, each at a place of its own; static ones at the start of the objects.
fn tables(flag: &str) -> Tables {
    let source = include_str!("fields.txt");
    let mut tables = Tables::default();
    let mut statics = OBJECTS;
    for (offset, line) in (1..).zip(source.lines()) {
        let (kind, name) = line.split_once(' ').unwrap();
        let place = match name.strip_prefix("static ") {
            Some(_) => {
                statics += 8;
                Place::Static(statics)
            }
            // An object of this type is a part of another.
            None if kind == "MemRegion" => Place::Offset(0x2000 + 8 * offset),
            None => Place::Offset(8 * offset),
        };
        let name = name.trim_start_matches("static ").to_owned();
        let field = Field {
            place,
            kind: String::new(),
        };
        tables.fields.insert((kind.to_owned(), name), field);
    }
    let tags = [
        ("FreeTag", 0),
        ("EdenTag", 2),
        ("SurvTag", 3),
        ("HumongousMask", 4),
        ("OldMask", 8),
    ];
    for (name, value) in tags {
        tables
            .constants
            .insert(format!("G1HeapRegionType::{name}"), value);
    }
    let states = [
        "_empty_uncommitted",
        "_empty_committed",
        "_regular",
        "_humongous_start",
    ];
    for (value, name) in states.iter().enumerate() {
        tables
            .constants
            .insert(format!("ShenandoahHeapRegion::{name}"), value as i64);
    }
    tables
        .constants
        .insert("ZAddressOffsetMask".into(), (1 << 42) - 1);
    tables.constants.insert("ZGranuleSizeShift".into(), 21);
    // Its value is 1 in every script.
    tables.flags.insert(flag.to_owned(), OBJECTS + MIB - 8);
    tables
        .flags
        .insert("CompressedClassSpaceSize".into(), OBJECTS + MIB - 16);
    tables
}

fn static_at(tables: &Tables, kind: &str, name: &str) -> u64 {
    match tables.fields[&(kind.to_owned(), name.to_owned())].place {
        Place::Static(at) => at,
        Place::Offset(_) => panic!("{kind}::{name} is not static"),
    }
}

fn offset(tables: &Tables, kind: &str, name: &str) -> u64 {
    match tables.fields[&(kind.to_owned(), name.to_owned())].place {
        Place::Offset(offset) => offset,
        Place::Static(_) => panic!("{kind}::{name} is static"),
    }
}

/// A Serial heap of 64 MiB: eden, two survivors, old.
fn serial() -> (Tables, Script) {
    let tables = tables("UseSerialGC");
    let mut script = Script::default();
    let [heap, young, old] = [1, 2, 3].map(|n| OBJECTS + n * 0x1_0000);
    let mut set = |at: u64, value: u64| script.words.insert(at, value);
    set(OBJECTS + MIB - 8, 1);
    set(static_at(&tables, "Universe", "_collectedHeap"), heap);
    let reserved = heap + offset(&tables, "CollectedHeap", "_reserved");
    set(reserved + offset(&tables, "MemRegion", "_start"), HEAP);
    set(
        reserved + offset(&tables, "MemRegion", "_word_size"),
        128 * MIB / 8,
    );
    set(heap + offset(&tables, "SerialHeap", "_young_gen"), young);
    set(heap + offset(&tables, "SerialHeap", "_old_gen"), old);
    let spaces = [
        ("DefNewGeneration", "_eden_space", young, 0, 10, 16),
        ("DefNewGeneration", "_from_space", young, 16, 18, 20),
        ("DefNewGeneration", "_to_space", young, 20, 20, 24),
        ("TenuredGeneration", "_the_space", old, 24, 40, 64),
    ];
    for (index, (kind, name, owner, bottom, top, end)) in (4..).zip(spaces) {
        let space = OBJECTS + index * 0x1_0000;
        set(owner + offset(&tables, kind, name), space);
        let of = |name| space + offset(&tables, "ContiguousSpace", name);
        set(of("_bottom"), HEAP + bottom * MIB);
        set(of("_top"), HEAP + top * MIB);
        set(of("_end"), HEAP + end * MIB);
    }
    (tables, script)
}

fn labelled(tables: &Tables, memory: &dyn Memory) -> Labels {
    let mut labels = Labels::default();
    label(tables, &snapshot(), memory, &mut labels);
    labels
}

fn of(labels: &Labels, kind: Kind) -> u64 {
    let labels = labels.labels.iter().filter(|label| label.kind == kind);
    labels.map(|l| l.addresses.end - l.addresses.start).sum()
}

/// Whether every label is in mappings.
fn is_inside(labels: &Labels) -> bool {
    labels.labels.iter().all(|label| {
        let mut at = label.addresses.start;
        for area in &snapshot().mappings {
            if area.addresses.contains(&at) {
                at = area.addresses.end;
            }
        }
        at >= label.addresses.end
    })
}

#[test]
fn spaces_are_cut_at_their_tops() {
    let (tables, script) = serial();
    let labels = labelled(&tables, &script);
    assert_eq!(of(&labels, Kind::Eden), 10 * MIB, "{:?}", labels.notes);
    assert_eq!(of(&labels, Kind::Survivor), 2 * MIB);
    assert_eq!(of(&labels, Kind::Old), 16 * MIB);
    assert!(is_inside(&labels));
}

#[test]
fn a_note_says_what_of_the_collector_s_is_not_told_apart() {
    // The script has no table of cards. The heap is divided all the same.
    let (tables, script) = serial();
    let labels = labelled(&tables, &script);
    let notes = &labels.notes;
    let has = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(has("own tables could not be told"), "{notes:?}");
    assert!(!has("as a whole") && !has("mark bits"), "{notes:?}");
    assert_eq!(of(&labels, Kind::Heap), 0);
    let (tables, script) = z();
    let labels = labelled(&tables, &script);
    let notes = &labels.notes;
    let told = |note: &&String| note.contains("collector's mark bits");
    assert_eq!(notes.iter().filter(told).count(), 1, "{notes:?}");
}

#[test]
fn a_space_outside_of_the_heap_is_not_believed() {
    let (tables, mut script) = serial();
    let space = OBJECTS + 7 * 0x1_0000;
    for value in [0, OBJECTS, HEAP + 200 * MIB, u64::MAX] {
        let at = space + offset(&tables, "ContiguousSpace", "_end");
        script.words.insert(at, value);
        let labels = labelled(&tables, &script);
        assert_eq!(of(&labels, Kind::Old), 0);
        assert_eq!(of(&labels, Kind::Heap), 128 * MIB);
        let told = |note: &String| note.contains("as a whole") && note.contains("makes no sense");
        assert!(labels.notes.iter().any(told), "{:?}", labels.notes);
    }
}

#[test]
fn what_is_in_swap_is_told_and_the_heap_shown_as_a_whole() {
    let (tables, mut script) = serial();
    let space = OBJECTS + 4 * 0x1_0000;
    script.absent.push(space..space + 0x1_0000);
    let labels = labelled(&tables, &script);
    assert_eq!(of(&labels, Kind::Heap), 128 * MIB);
    let told = |note: &String| note.contains("as a whole") && note.contains("not in memory");
    assert!(labels.notes.iter().any(told), "{:?}", labels.notes);
    script.absent.push(0..u64::MAX);
    let labels = labelled(&tables, &script);
    assert_eq!(of(&labels, Kind::Heap), 128 * MIB + (64 << 20));
    assert!(is_inside(&labels));
}

/// A ZGC heap whose first page ends within its granule.
fn z() -> (Tables, Script) {
    let tables = tables("UseZGC");
    let mut script = Script::default();
    let [heap, entries, page] = [1, 8, 9].map(|n| OBJECTS + n * 0x1_0000);
    let field = |object: u64, kind: &str, name: &str| object + offset(&tables, kind, name);
    let table = field(
        field(heap, "ZCollectedHeap", "_heap"),
        "ZHeap",
        "_page_table",
    );
    let map = field(table, "ZPageTable", "_map");
    let range = field(page, "ZPage", "_virtual");
    for (at, value) in [
        (OBJECTS + MIB - 8, 1),
        (static_at(&tables, "Universe", "_collectedHeap"), heap),
        (field(map, "ZGranuleMapForPageTable", "_map"), entries),
        (entries, page),
        (field(range, "ZVirtualMemory", "_start"), 0),
        (field(range, "ZVirtualMemory", "_end"), 4096),
    ] {
        script.words.insert(at, value);
    }
    (tables, script)
}

#[test]
fn a_page_that_ends_within_a_granule_is_not_taken_in_bytes() {
    let (tables, script) = z();
    // The view begins behind the end of the page, in the same granule of 2 MiB.
    let start = 0x400_0000_0000 + MIB;
    let mut seen = snapshot();
    seen.mappings
        .retain(|area| !area.name.starts_with("/memfd:"));
    let view = area(start..start + 7 * MIB, "/memfd:java_heap (deleted)", true);
    seen.mappings.insert(3, view);
    let mut labels = Labels::default();
    label(&tables, &seen, &script, &mut labels);
    let of_view = |label: &&crate::labels::Label| label.addresses.start >= start;
    let of_view: Vec<_> = labels.labels.iter().filter(of_view).collect();
    assert!((1..16).contains(&of_view.len()), "{}", of_view.len());
    assert_eq!(of(&labels, Kind::FreeHeap), 7 * MIB, "{:?}", labels.notes);
}

#[test]
fn other_machines_are_left_alone() {
    let mut seen = snapshot();
    assert!(HotSpot.runs(&seen.candidate()));
    let other = area(
        0x7f10_0000_0000..0x7f10_0100_0000,
        "/jdk/lib/libj9vm29.so",
        true,
    );
    seen.mappings.push(other);
    assert!(!HotSpot.runs(&seen.candidate()));
    assert!(!HotSpot.runs(&Snapshot::default().candidate()));
    let mut labels = Labels::default();
    label_without(&snapshot(), "a reason", &mut labels);
    assert!(labels.notes[0].contains("a reason"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_is_read_labels_stay_in_mappings(
        seed in any::<u64>(),
        collector in 0..6_usize,
        small in 0..64_u64,
    ) {
        let flags = ["UseSerialGC", "UseParallelGC", "UseG1GC", "UseShenandoahGC", "UseZGC", "UseEpsilonGC"];
        let noise = Noise {
            seed,
            reads: std::cell::Cell::new(0),
            likely: vec![
                OBJECTS, OBJECTS + 0x1000, OBJECTS + 0x8_0000, HEAP, HEAP + MIB, HEAP + 64 * MIB,
                HEAP + 128 * MIB, 0x400_0000_0000, small, small, 0, 1,
            ],
        };
        let labels = labelled(&tables(flags[collector]), &noise);
        prop_assert!(is_inside(&labels), "{:x?}", labels.labels);
    }
}
