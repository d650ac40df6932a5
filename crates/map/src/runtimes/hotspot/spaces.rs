//! Heaps of spaces: Serial, Parallel, Epsilon, and CMS of JDK 11. A space has objects from its bottom to
//! its top, and room for more up to its end.

use super::fields::{Known, Machine, Name, Unknown, page_after};
use super::heap::Part;
use crate::area::Kind;
use plimsoll_kernel::smaps::Addresses;

const CONTIGUOUS: Names = Names {
    bottom: [("ContiguousSpace", "_bottom"), ("Space", "_bottom")],
    top: ("ContiguousSpace", "_top"),
    end: [("ContiguousSpace", "_end"), ("Space", "_end")],
};
const MUTABLE: Names = Names {
    bottom: [("MutableSpace", "_bottom"), ("ImmutableSpace", "_bottom")],
    top: ("MutableSpace", "_top"),
    end: [("MutableSpace", "_end"), ("ImmutableSpace", "_end")],
};

/// The names of a space's fields; two where versions differ.
struct Names {
    bottom: [Name; 2],
    top: Name,
    end: [Name; 2],
}

/// The parts of a Serial heap.
pub(super) fn serial(machine: &Machine<'_>, heap: u64) -> Known<Vec<Part>> {
    let mut parts = Vec::new();
    add_young(machine, heap, &mut parts)?;
    let old = old_generation(machine, heap)?;
    let space = machine.pointer(old, ("TenuredGeneration", "_the_space"))?;
    add(machine, space, &CONTIGUOUS, Kind::Old, &mut parts)?;
    Ok(parts)
}

/// The parts of a CMS heap. Its old generation has objects and free memory everywhere.
pub(super) fn cms(machine: &Machine<'_>, heap: u64) -> Known<Vec<Part>> {
    let mut parts = Vec::new();
    add_young(machine, heap, &mut parts)?;
    let old = old_generation(machine, heap)?;
    let space = machine.pointer(old, ("ConcurrentMarkSweepGeneration", "_cmsSpace"))?;
    let bottom = machine.get(space, ("Space", "_bottom"))?;
    let end = machine.get(space, ("Space", "_end"))?;
    parts.push(Part {
        addresses: machine.range(bottom, end, "a space of the heap")?,
        kind: Kind::Old,
    });
    Ok(parts)
}

/// The young generation of Serial and CMS.
fn add_young(machine: &Machine<'_>, heap: u64, parts: &mut Vec<Part>) -> Known<()> {
    let young = generation(machine, heap, "_young_gen")?;
    for (name, kind) in [
        ("_eden_space", Kind::Eden),
        ("_from_space", Kind::Survivor),
        ("_to_space", Kind::Survivor),
    ] {
        let space = machine.pointer(young, ("DefNewGeneration", name))?;
        add(machine, space, &CONTIGUOUS, kind, parts)?;
    }
    Ok(())
}

/// The object of the old generation of Serial and CMS.
pub(super) fn old_generation(machine: &Machine<'_>, heap: u64) -> Known<u64> {
    generation(machine, heap, "_old_gen")
}

fn generation(machine: &Machine<'_>, heap: u64, name: &'static str) -> Known<u64> {
    if machine.has(("SerialHeap", name)) {
        machine.pointer(heap, ("SerialHeap", name))
    } else {
        machine.pointer(heap, ("GenCollectedHeap", name))
    }
}

/// The parts of a Parallel heap.
pub(super) fn parallel(machine: &Machine<'_>) -> Known<Vec<Part>> {
    let young = machine.static_pointer(("ParallelScavengeHeap", "_young_gen"))?;
    let old = machine.static_pointer(("ParallelScavengeHeap", "_old_gen"))?;
    let mut parts = Vec::new();
    for (name, kind) in [
        ("_eden_space", Kind::Eden),
        ("_from_space", Kind::Survivor),
        ("_to_space", Kind::Survivor),
    ] {
        let space = machine.pointer(young, ("PSYoungGen", name))?;
        add(machine, space, &MUTABLE, kind, &mut parts)?;
    }
    let space = machine.pointer(old, ("PSOldGen", "_object_space"))?;
    add(machine, space, &MUTABLE, Kind::Old, &mut parts)?;
    Ok(parts)
}

/// The parts of an Epsilon heap.
pub(super) fn epsilon(machine: &Machine<'_>, heap: u64) -> Known<Vec<Part>> {
    let space = machine.pointer(heap, ("EpsilonHeap", "_space"))?;
    let mut parts = Vec::new();
    add(machine, space, &CONTIGUOUS, Kind::Heap, &mut parts)?;
    Ok(parts)
}

fn add(
    machine: &Machine<'_>,
    space: u64,
    names: &Names,
    kind: Kind,
    parts: &mut Vec<Part>,
) -> Known<()> {
    let bottom = machine.get_any(space, &names.bottom)?;
    let top = machine.get(space, names.top)?;
    let end = machine.get_any(space, &names.end)?;
    parts.extend(split(machine, bottom, top, end, kind)?);
    Ok(())
}

/// A space or a region: its objects, and the room above them.
pub(super) fn split(
    machine: &Machine<'_>,
    bottom: u64,
    top: u64,
    end: u64,
    kind: Kind,
) -> Known<[Part; 2]> {
    let all: Addresses = machine.range(bottom, end, "a space of the heap")?;
    if top < bottom || end < top {
        return Err(Unknown::Odd("a space of the heap"));
    }
    let top = page_after(top).min(all.end);
    Ok([
        Part {
            addresses: all.start..top,
            kind,
        },
        Part {
            addresses: top..all.end,
            kind: Kind::FreeHeap,
        },
    ])
}
