//! Where the regions of a G1 heap are described, in each version.

use crate::machine::{Machine, Refusal};

/// The largest number that tells what a region is. A larger one was misread.
pub const MAX_TAG: i64 = 1 << 16;
/// Why a heap is left alone whose regions are not as they should be.
pub const ODD: Refusal = Refusal::Odd("the regions of its heap");

/// Names of the types and fields of regions in each version; the newest first.
pub struct Names {
    /// The type of a region.
    pub region: &'static str,
    /// The type of its tag.
    pub kind: &'static str,
    /// The type of what has the table of all.
    pub manager: &'static str,
    /// The type to which `_bottom` and `_end` belong.
    pub bounds: &'static str,
    /// The type to which `_top` belongs.
    pub top: &'static str,
    /// The constant that is the tag of free regions.
    pub free: &'static str,
}

/// Those of all versions.
pub const NAMES: [Names; 3] = [
    Names {
        region: "G1HeapRegion",
        kind: "G1HeapRegionType",
        manager: "G1HeapRegionManager",
        bounds: "G1HeapRegion",
        top: "G1HeapRegion",
        free: "G1HeapRegionType::FreeTag",
    },
    Names {
        region: "HeapRegion",
        kind: "HeapRegionType",
        manager: "HeapRegionManager",
        bounds: "HeapRegion",
        top: "HeapRegion",
        free: "HeapRegionType::FreeTag",
    },
    // A region is a space there.
    Names {
        region: "HeapRegion",
        kind: "HeapRegionType",
        manager: "HeapRegionManager",
        bounds: "Space",
        top: "G1ContiguousSpace",
        free: "HeapRegionType::FreeTag",
    },
];

/// Where the fields of a region are, bytes from the start of its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its first address.
    pub bottom: u64,
    /// The end of what is in it.
    pub top: u64,
    /// Its end.
    pub end: u64,
    /// Its tag, which tells its kind.
    pub tag: u64,
    /// The tag of a free one.
    pub free: u32,
}

impl Layout {
    /// Reads it from the machine's tables.
    ///
    /// # Errors
    /// If they lack something, or are odd.
    pub fn of(machine: &Machine, names: &Names) -> Result<Layout, Refusal> {
        let offset = |kind, name| machine.at(0, kind, name);
        let word_at = |kind, name| offset(kind, name).map(|offset| (offset, offset % 8 == 0));
        let (bottom, top, end) = (
            word_at(names.bounds, "_bottom")?,
            word_at(names.top, "_top")?,
            word_at(names.bounds, "_end")?,
        );
        let kind = offset(names.region, "_type")?;
        let tag = machine.at(kind, names.kind, "_tag")?;
        let free = machine
            .constant(names.free)
            .ok_or(Refusal::NoConstant(names.free))?;
        let free = u32::try_from(free).ok().filter(|_| free < MAX_TAG);
        if !(bottom.1 && top.1 && end.1) {
            return Err(ODD);
        }
        Ok(Layout {
            bottom: bottom.0,
            top: top.0,
            end: end.0,
            tag,
            free: free.ok_or(ODD)?,
        })
    }
}

/// Where the machine describes its table of regions.
///
/// # Errors
/// If its tables do not say that.
pub fn table(machine: &Machine, names: &Names) -> Result<u64, Refusal> {
    let heap = machine.static_pointer("Universe", "_collectedHeap")?;
    // Part of the heap's object, except in 12 to 15.
    let manager = if machine.is_pointer("G1CollectedHeap", "_hrm") {
        machine.pointer(heap, "G1CollectedHeap", "_hrm")?
    } else {
        machine.at(heap, "G1CollectedHeap", "_hrm")?
    };
    machine.at(manager, names.manager, "_regions")
}
