//! The Java heap of any collector.

use super::fields::{Known, Machine, Unknown};
use super::{collector, regions, spaces, zgc};
use crate::area::Kind;
use crate::labels::Labels;
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;

/// A range of the heap, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) addresses: Addresses,
    pub(super) kind: Kind,
}

/// The collectors, by the flag that chooses each.
const COLLECTORS: [(&str, Collector); 7] = [
    ("UseG1GC", Collector::G1),
    ("UseSerialGC", Collector::Serial),
    ("UseParallelGC", Collector::Parallel),
    ("UseZGC", Collector::Z),
    ("UseShenandoahGC", Collector::Shenandoah),
    ("UseEpsilonGC", Collector::Epsilon),
    ("UseConcMarkSweepGC", Collector::Cms),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collector {
    Serial,
    Parallel,
    G1,
    Shenandoah,
    Z,
    Epsilon,
    /// Mark and sweep beside the program, in JDK 11.
    Cms,
}

/// How often the heap is read until two readings agree.
const READINGS: usize = 4;

/// Without its data the machine's heap is known by its place: pointers of 32 bits reach 32 GiB, and the
/// heap is put below that, but not lower than 2 GiB (`HeapBaseMinAddress`).
const COMPRESSED: Addresses = 0x8000_0000..0x8_0000_0000;

/// Labels the heap and what its collector keeps about it, as far as the machine tells of them.
pub(super) fn label(machine: &Machine<'_>, snapshot: &Snapshot, labels: &mut Labels) -> Known<()> {
    let heap = machine.static_pointer(("Universe", "_collectedHeap"))?;
    let collector = collector(machine)?;
    if collector == Collector::Z {
        zgc::label(machine, heap, snapshot, labels)?;
    } else {
        let reserved = reserved(machine, heap)?;
        let divided = divide(machine, collector, heap, &reserved, labels);
        let rest = match divided {
            Ok(()) => Kind::FreeHeap,
            Err(_) => Kind::Heap,
        };
        labels.add(reserved, rest);
        divided?;
    }
    collector::label(machine, collector, heap, labels);
    Ok(())
}

fn divide(
    machine: &Machine<'_>,
    collector: Collector,
    heap: u64,
    reserved: &Addresses,
    labels: &mut Labels,
) -> Known<()> {
    let (parts, settled) = settled(machine, |machine| parts(machine, collector, heap))?;
    let inside = |part: &Part| {
        let range = &part.addresses;
        range.is_empty() || (reserved.start <= range.start && range.end <= reserved.end)
    };
    if !parts.iter().all(inside) {
        return Err(Unknown::Odd("the spaces of the heap"));
    }
    for part in parts {
        labels.add(part.addresses, part.kind);
    }
    if !settled {
        labels.note(
            "the Java heap changed while it was read: what each part of it is may be a little older or \
             newer than the rest",
        );
    }
    if collector == Collector::Cms {
        labels.note(
            "free memory among the objects of the old generation is shown as old: the JVM does not tell \
             where it is",
        );
    }
    if collector == Collector::Shenandoah && is_generational(machine) {
        labels.note(
            "which regions of a generational Shenandoah heap are young or old is not told by the JVM: \
             both are shown as heap",
        );
    }
    Ok(())
}

/// Labels mappings as the heap by their addresses and names, unless some heap is labelled. A mapping
/// that adjoins the class data sharing archive is the class space, which may lie at such addresses too.
pub(super) fn label_by_mappings(snapshot: &Snapshot, labels: &mut Labels) {
    if labels.labels.iter().any(|label| label.kind == Kind::Heap) {
        return;
    }
    let mut end_of_archive = 0;
    for area in &snapshot.mappings {
        let addresses = &area.addresses;
        let is_plain = area.name.is_empty() && area.file.inode == 0 && !area.shared_mapping;
        let is_after_archive = addresses.start == end_of_archive;
        if area.name.ends_with(".jsa") || (is_plain && is_after_archive) {
            end_of_archive = addresses.end;
            continue;
        }
        let is_low = COMPRESSED.start <= addresses.start && addresses.end <= COMPRESSED.end;
        if (is_plain && is_low) || zgc::is_heap(area) {
            labels.add(addresses.clone(), Kind::Heap);
        }
    }
}

fn collector(machine: &Machine<'_>) -> Known<Collector> {
    for (flag, collector) in COLLECTORS {
        if machine.has_flag(flag) && machine.is_set(flag)? {
            return Ok(collector);
        }
    }
    Err(Unknown::Collector)
}

/// All addresses that the heap may come to use.
fn reserved(machine: &Machine<'_>, heap: u64) -> Known<Addresses> {
    let region = machine.at(heap, ("CollectedHeap", "_reserved"))?;
    let start = machine.get(region, ("MemRegion", "_start"))?;
    let words = machine.get(region, ("MemRegion", "_word_size"))?;
    let end = words
        .checked_mul(8)
        .and_then(|size| start.checked_add(size));
    let what = "the range of the heap";
    let end = end.filter(|&end| end > start).ok_or(Unknown::Odd(what))?;
    machine.range(start, end, what)
}

fn parts(machine: &Machine<'_>, collector: Collector, heap: u64) -> Known<Vec<Part>> {
    match collector {
        Collector::Serial => spaces::serial(machine, heap),
        Collector::Parallel => spaces::parallel(machine),
        Collector::Epsilon => spaces::epsilon(machine, heap),
        Collector::Cms => spaces::cms(machine, heap),
        Collector::G1 => regions::g1(machine, heap),
        Collector::Shenandoah => regions::shenandoah(machine, heap),
        Collector::Z => Err(Unknown::Collector),
    }
}

/// The value that `read` returns, the same one twice if possible, and whether it was.
fn settled<T: PartialEq>(
    machine: &Machine<'_>,
    read: impl Fn(&Machine<'_>) -> Known<T>,
) -> Known<(T, bool)> {
    let mut last = read(machine);
    for _ in 1..READINGS {
        let next = read(&machine.again());
        match (last, next) {
            (Ok(last), Ok(next)) if last == next => return Ok((next, true)),
            (_, next) => last = next,
        }
    }
    last.map(|value| (value, false))
}

fn is_generational(machine: &Machine<'_>) -> bool {
    let mode = machine.flag_at("ShenandoahGCMode");
    mode.and_then(|at| machine.word(at))
        .and_then(|text| machine.starts_with(text, b"generational"))
        .unwrap_or(false)
}
