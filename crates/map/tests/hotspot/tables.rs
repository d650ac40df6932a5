//! The tables of each JDK's `libjvm.so`.

use crate::jvm::{Jvm, jdks};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_map::Snapshot;
use plimsoll_map::memory::{Memory, ProcessMemory, Unread};
use plimsoll_map::runtimes::hotspot;
use plimsoll_programs::hotspot::tables::{Place, Tables};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process's memory, with some ranges as if they were in swap.
struct Without<'a> {
    memory: &'a dyn Memory,
    swapped: Vec<Addresses>,
}

impl Memory for Without<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        if self.swapped.iter().any(|range| range.contains(&at)) {
            Err(Unread::NotResident)
        } else {
            self.memory.read(at, into)
        }
    }
}

fn place(tables: &Tables, kind: &str, name: &str) -> Option<Place> {
    let field = tables.fields.get(&(kind.to_owned(), name.to_owned()));
    field.map(|field| field.place)
}

/// Checks that the tables hold what the map reads, and everything else.
#[track_caller]
fn assert_complete(tables: &Tables, name: &str) {
    assert!(
        tables.fields.len() > 500 && tables.sizes.len() > 300,
        "{name}"
    );
    assert!(
        tables.constants.len() > 400 && tables.flags.len() > 1000,
        "{name}"
    );
    assert!(matches!(
        place(tables, "Universe", "_collectedHeap"),
        Some(Place::Static(_))
    ));
    assert!(matches!(
        place(tables, "ContiguousSpace", "_top"),
        Some(Place::Offset(16..))
    ));
    assert_eq!(
        tables.constants.get("CollectedHeap::Serial"),
        Some(&1),
        "{name}"
    );
    assert!(tables.flags.contains_key("UseSerialGC"), "{name}");
}

#[test]
fn tables_are_the_same_with_and_without_the_variables_of_the_library() {
    for jdk in &jdks() {
        let Some(jvm) = Jvm::start(jdk, &["-XX:+UseSerialGC"]) else {
            return;
        };
        let process = Arc::new(Process::open(jvm.pid()).unwrap());
        let mut snapshot = Snapshot::of(&process, PATIENCE).unwrap();
        let memory = ProcessMemory::open(&process).unwrap();
        let tables = hotspot::tables(&snapshot, &memory).unwrap();
        let name = format!("JDK {}", jdk.version);
        assert_complete(&tables, &name);
        let is_library = |name: &str| name.ends_with("/libjvm.so");
        let end = snapshot
            .mappings
            .iter()
            .rev()
            .find(|area| is_library(&area.name))
            .unwrap();
        let end = end.addresses.end;
        let mut swapped = Vec::new();
        // With it the variables without a first value, which follow.
        for area in &mut snapshot.mappings {
            if is_library(&area.name) || (area.addresses.start == end && area.file.inode == 0) {
                swapped.push(area.addresses.clone());
                area.swap = 4096;
            }
        }
        let without = Without {
            memory: &memory,
            swapped,
        };
        let again = hotspot::tables(&snapshot, &without).unwrap();
        for (field, with) in &tables.fields {
            assert_eq!(again.fields.get(field), Some(with), "{name} {field:?}");
        }
        assert_eq!(again.sizes, tables.sizes, "{name}");
        assert_eq!(again.flags, tables.flags, "{name}");
        // A few others are computed when the machine starts.
        let used = [
            "HeapRegionType::",
            "ShenandoahHeapRegion::",
            "ZPageType",
            "GranuleSizeShift",
        ];
        let is_used = |constant: &str| used.iter().any(|part| constant.contains(part));
        for (constant, value) in tables.constants.iter().filter(|(name, _)| is_used(name)) {
            assert_eq!(
                again.constants.get(constant),
                Some(value),
                "{name} {constant}"
            );
        }
    }
}

/// The first tables that are told of a process while its machine starts.
fn first_tables(process: &Arc<Process>) -> Tables {
    let end = Instant::now() + PATIENCE;
    loop {
        let snapshot = Snapshot::unsized_of(process, PATIENCE).unwrap();
        let memory = ProcessMemory::open(process).unwrap();
        // Before it has loaded its library there are none.
        match hotspot::tables(&snapshot, &memory) {
            Ok(tables) => return tables,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
    }
}

#[test]
fn tables_of_a_machine_that_is_just_starting_are_told_whole_or_not_at_all() {
    for jdk in &jdks() {
        for _ in 0..3 {
            let flags = ["-XX:+UseSerialGC"];
            let Some(mut jvm) = Jvm::begin(Command::new(jdk.java()), jdk, &flags) else {
                return;
            };
            let process = Arc::new(Process::open(jvm.pid()).unwrap());
            let first = first_tables(&process);
            jvm.come_to_rest();
            let at_rest = first_tables(&process);
            assert_eq!(first.fields, at_rest.fields, "JDK {}", jdk.version);
            assert_eq!(first.sizes, at_rest.sizes, "JDK {}", jdk.version);
            assert_eq!(first.flags, at_rest.flags, "JDK {}", jdk.version);
        }
    }
}
