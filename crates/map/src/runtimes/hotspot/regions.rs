//! Heaps of regions: G1, Shenandoah. A table points to an object for each region.

use super::fields::{Known, Machine, Name, Unknown};
use super::heap::Part;
use super::spaces::split;
use crate::area::Kind;

/// Most regions. G1 aims at 2048 of them; the smallest have 1 MiB (256 KiB in Shenandoah).
const MAX_REGIONS: u64 = 1 << 18;
const WHAT: &str = "the regions of the heap";

/// The names that a version has for G1's regions.
struct G1Names {
    kind: Name,
    tag: Name,
    bottom: Name,
    top: Name,
    end: Name,
    regions: Name,
    constants: &'static str,
}

const G1_25: G1Names = G1Names {
    kind: ("G1HeapRegion", "_type"),
    tag: ("G1HeapRegionType", "_tag"),
    bottom: ("G1HeapRegion", "_bottom"),
    top: ("G1HeapRegion", "_top"),
    end: ("G1HeapRegion", "_end"),
    regions: ("G1HeapRegionManager", "_regions"),
    constants: "G1HeapRegionType",
};
const G1_17: G1Names = G1Names {
    kind: ("HeapRegion", "_type"),
    tag: ("HeapRegionType", "_tag"),
    bottom: ("HeapRegion", "_bottom"),
    top: ("HeapRegion", "_top"),
    end: ("HeapRegion", "_end"),
    regions: ("HeapRegionManager", "_regions"),
    constants: "HeapRegionType",
};
/// A region is a space there.
const G1_11: G1Names = G1Names {
    bottom: ("Space", "_bottom"),
    top: ("G1ContiguousSpace", "_top"),
    end: ("Space", "_end"),
    ..G1_17
};

/// The parts of a G1 heap.
pub(super) fn g1(machine: &Machine<'_>, heap: u64) -> Known<Vec<Part>> {
    let known = [G1_25, G1_17, G1_11];
    let names = known.iter().find(|names| machine.has(names.top));
    let names = names.unwrap_or(&G1_25);
    let manager = machine.at(heap, ("G1CollectedHeap", "_hrm"))?;
    let table = machine.at(manager, names.regions)?;
    let base = machine.pointer(table, ("G1HeapRegionTable", "_base"))?;
    let length = machine.get(table, ("G1HeapRegionTable", "_length"))?;
    let tags = Tags::read(machine, names.constants)?;
    let mut parts = Vec::new();
    for region in regions(machine, base, length)? {
        let kind = machine.at(region, names.kind)?;
        let tag = machine.half(machine.at(kind, names.tag)?)?;
        let kind = tags.kind(i64::from(tag))?;
        add(
            machine,
            region,
            [names.bottom, names.top, names.end],
            kind,
            &mut parts,
        )?;
    }
    Ok(parts)
}

/// The tags of G1's regions, by their meaning.
struct Tags {
    free: i64,
    eden: i64,
    survivor: i64,
    humongous: i64,
    old: i64,
}

impl Tags {
    fn read(machine: &Machine<'_>, of: &str) -> Known<Tags> {
        let constant = |name: &str| machine.constant(&format!("{of}::{name}"));
        let missing = Unknown::Field("HeapRegionType", "_tag");
        // Where objects of the class data sharing archive lie is a kind of old memory.
        let archive = constant("ArchiveMask").unwrap_or(0);
        Ok(Tags {
            free: constant("FreeTag").ok_or(missing)?,
            eden: constant("EdenTag").ok_or(missing)?,
            survivor: constant("SurvTag").ok_or(missing)?,
            humongous: constant("HumongousMask").ok_or(missing)?,
            old: constant("OldMask").ok_or(missing)? | archive,
        })
    }

    fn kind(&self, tag: i64) -> Known<Kind> {
        match tag {
            _ if tag == self.free => Ok(Kind::FreeHeap),
            _ if tag == self.eden => Ok(Kind::Eden),
            _ if tag == self.survivor => Ok(Kind::Survivor),
            _ if tag & self.humongous != 0 => Ok(Kind::Humongous),
            _ if tag & self.old != 0 => Ok(Kind::Old),
            _ => Err(Unknown::Odd(WHAT)),
        }
    }
}

/// The parts of a Shenandoah heap.
pub(super) fn shenandoah(machine: &Machine<'_>, heap: u64) -> Known<Vec<Part>> {
    let count = machine.get(heap, ("ShenandoahHeap", "_num_regions"))?;
    let base = machine.pointer(heap, ("ShenandoahHeap", "_regions"))?;
    let state = |name: &str| machine.constant(&format!("ShenandoahHeapRegion::{name}"));
    let empty = ["_empty_uncommitted", "_empty_committed"].map(state);
    let humongous = [
        "_humongous_start",
        "_humongous_cont",
        "_pinned_humongous_start",
    ]
    .map(state);
    let used = ["_regular", "_cset", "_pinned", "_pinned_cset", "_trash"].map(state);
    let names = ["_bottom", "_top", "_end"].map(|name| ("ShenandoahHeapRegion", name));
    let mut parts = Vec::new();
    for region in regions(machine, base, count)? {
        let state = machine.half(machine.at(region, ("ShenandoahHeapRegion", "_state"))?)?;
        let state = Some(i64::from(state));
        let kind = match state {
            _ if empty.contains(&state) => Kind::FreeHeap,
            _ if humongous.contains(&state) => Kind::Humongous,
            _ if used.contains(&state) => Kind::Heap,
            _ => return Err(Unknown::Odd(WHAT)),
        };
        add(machine, region, names, kind, &mut parts)?;
    }
    Ok(parts)
}

/// The objects of the regions that have one.
fn regions(machine: &Machine<'_>, base: u64, count: u64) -> Known<Vec<u64>> {
    if count == 0 || count > MAX_REGIONS {
        return Err(Unknown::Odd(WHAT));
    }
    machine.range(base, base.saturating_add(count * 8), WHAT)?;
    let mut found = Vec::with_capacity(count as usize);
    for index in 0..count {
        let region = machine.word(base + index * 8)?;
        if region != 0 {
            found.push(region);
        }
    }
    Ok(found)
}

fn add(
    machine: &Machine<'_>,
    region: u64,
    [bottom, top, end]: [Name; 3],
    kind: Kind,
    parts: &mut Vec<Part>,
) -> Known<()> {
    let bottom = machine.get(region, bottom)?;
    let end = machine.get(region, end)?;
    let top = match kind {
        Kind::FreeHeap => bottom,
        _ => machine.get(region, top)?,
    };
    for part in split(machine, bottom, top, end, kind)? {
        match parts.last_mut() {
            _ if part.addresses.is_empty() => {}
            Some(last) if last.kind == part.kind && last.addresses.end == part.addresses.start => {
                last.addresses.end = part.addresses.end;
            }
            _ => parts.push(part),
        }
    }
    Ok(())
}
